"""Requests to others: they end in time, and whatever goes wrong is said."""

import asyncio
import builtins
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import pytest

from tests.support.patience import LIMIT_S
from waystation.core.errors import InvalidOption
from waystation.core.http import outgoing
from waystation.core.http.addresses import networks
from waystation.core.webhooks import delivery
from waystation.core.webhooks.delivery import Sender

HERE = networks(["127.0.0.0/8"], "webhook_networks")


@contextmanager
def peer(says: bytes, then: bytes = b"") -> Generator[str]:
    """Says something to whoever comes, and then something again and again, without an end."""
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, suppress(OSError):
                client.recv(65536)
                client.sendall(says)
                while then and not over.wait(0.02):
                    client.sendall(then)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/hook?a=1"
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)


OK = b"HTTP/1.1 200 OK\r\n"


def test_an_answer_comes_back() -> None:
    with peer(OK + b"Content-Length: 5\r\n\r\nhello") as url:
        assert outgoing.ask("GET", url, limit_s=LIMIT_S) == (200, b"hello")


@pytest.mark.parametrize(
    ("says", "then"),
    [(OK, b"X-A: 1\r\n"), (OK + b"Content-Length: 9999\r\n\r\n", b"."), (b"", b"")],
    ids=["headers", "body", "nothing"],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_peer_that_drips_is_given_up_in_time(says: bytes, then: bytes, scheme: str) -> None:
    # To TLS these bytes are a handshake that does not come to its end.
    says = b"\x16\x03\x03\x40\x00" if scheme == "https" else says
    with peer(says, then or b"\0") as url, pytest.raises(TimeoutError):
        outgoing.ask("GET", url.replace("http", scheme, 1), limit_s=0.2)


async def test_a_webhook_that_drips_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PATIENCE_S", 0.2)
    with peer(OK, b"X-A: 1\r\n") as url:
        async with asyncio.timeout(LIMIT_S):
            wrong = await Sender(HERE).send(url, "secret", b"{}", delivery="1")
    assert wrong == "127.0.0.1 does not answer: TimeoutError"


def raising(error: type[BaseException]) -> Callable[..., int]:
    def post(*_: object) -> int:
        raise error("odd")

    return post


EVERY_ERROR = [
    each
    for each in vars(builtins).values()
    if isinstance(each, type)
    and issubclass(each, Exception)
    and not issubclass(each, UnicodeError | BaseExceptionGroup)
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda each: each.__name__)
async def test_whatever_sending_raises_is_a_failure_of_that_webhook(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "post", raising(error))
    assert await Sender().send("https://shop.example/", "secret", b"{}", delivery="1")


@pytest.mark.parametrize(
    "host",
    ["shop..example", ".example.com", "x" * 64 + ".example", "shop.example..", "a." * 127 + "aa",
     "-shop.example", "shop-.example", "shop!.example", "192.0.0.192"],
)  # fmt: skip
async def test_a_host_that_cannot_exist_is_refused(host: str) -> None:
    with pytest.raises(InvalidOption, match=r"can exist|leads inside"):
        delivery.checked(f"https://{host}/hook", ())
    # Also if it was stored before it was refused.
    assert await Sender().send(f"https://{host}/hook", "secret", b"{}", delivery="1")


@pytest.mark.parametrize(
    "host", ["shop.example", "shop.example.", "a_b.c-d.example", "xn--bcher-kva.example"]
)
def test_a_host_that_can_exist_is_taken(host: str) -> None:
    assert delivery.checked(f"https://{host}/hook", ())

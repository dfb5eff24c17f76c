"""How a request's body is read: to its end, and not a step further."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, MutableMapping
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from waystation.core.http import exchange
from waystation.core.http.exchange import MOST_BODY, Message, Request, Scope, SlowBodies
from waystation.core.http.problems import Problem


def _asked(*parts: bytes, end: bool = True, headers: dict[str, str] | None = None) -> Request:
    """A request whose body comes in parts; asking beyond the last one is a failure."""
    scope: Scope = {
        "method": "POST",
        "path": "/",
        "headers": [(n.encode(), v.encode()) for n, v in (headers or {}).items()],
    }
    messages: Iterator[Message] = iter(
        {"type": "http.request", "body": part, "more_body": not (end and at == len(parts))}
        for at, part in enumerate(parts, start=1)
    )

    async def receive() -> Message:
        for message in messages:
            return message
        raise AssertionError("all of it was here already")

    return Request(scope, receive, "", slow=SlowBodies())


async def test_a_body_whose_length_was_told_is_not_asked_for_again_when_it_is_here() -> None:
    assert await _asked(b"{", b"}", end=False, headers={"content-length": "2"}).body() == b"{}"


async def test_nothing_is_asked_for_where_nothing_was_told() -> None:
    assert await _asked(headers={"content-length": "0"}).body() == b""


async def test_a_body_of_unknown_length_is_read_to_its_end() -> None:
    assert await _asked(b"{", b"}", b"").body() == b"{}"


async def test_the_end_counts_where_the_told_length_does_not() -> None:
    both = {"content-length": "1", "transfer-encoding": "chunked"}
    assert await _asked(b"{", b"}", headers=both).body() == b"{}"


async def test_a_body_that_stops_short_is_what_came() -> None:
    assert await _asked(b"{", headers={"content-length": "2"}).body() == b"{"


@pytest.mark.parametrize("headers", [{"content-length": "5000"}, {}])
async def test_a_body_that_is_too_long_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Problem, match="4096"):
        await _asked(b"x" * MOST_BODY, b"x", headers=headers).body()


@pytest.mark.parametrize("headers", [{"content-length": "10"}, {}])
async def test_a_body_that_does_not_come_is_not_waited_for(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "PATIENCE_S", 0.05)
    scope: Scope = {
        "method": "POST",
        "path": "/",
        "headers": [(n.encode(), v.encode()) for n, v in headers.items()],
    }

    async def drip() -> Message:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    asked = Request(scope, drip, "", slow=SlowBodies())
    with pytest.raises(Problem) as refused:
        await asked.body(most=1_000_000 if headers else MOST_BODY)
    assert (refused.value.status, refused.value.code) == (408, "BODY_TOO_SLOW")
    assert refused.value.headers["connection"] == "close"


async def test_one_client_keeps_few_slow_bodies_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 47: those beyond are not waited for, however patient the room is otherwise."""
    monkeypatch.setattr(exchange, "PATIENCE_S", 100_000)
    slow = SlowBodies(most=2, quick_s=0)
    kept = [_Dripping(slow, "2001:db8::1"), _Dripping(slow, "2001:db8::2")]
    other = _Dripping(slow, "2001:db8:0:1::1")
    while not all(each.waits for each in (*kept, other)):
        await asyncio.sleep(0)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(Problem, match="a body must be here") as refused:
            await _Dripping(slow, "2001:db8::3").reading
    assert (refused.value.status, refused.value.headers["connection"]) == (408, "close")
    # One that ends makes room for the next.
    await kept[0].stop()
    following = _Dripping(slow, "2001:db8::3")
    while not following.waits:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not following.reading.done()
    for each in (kept[1], other, following):
        assert not each.reading.done()
        await each.stop()


class _Dripping:
    """A body of which nothing comes."""

    def __init__(self, slow: SlowBodies, address: str) -> None:
        self.waits = False
        scope: Scope = {"method": "POST", "path": "/", "headers": []}
        self.reading = asyncio.ensure_future(
            Request(scope, self._receive, address, slow=slow).body()
        )

    async def _receive(self) -> Message:
        self.waits = True
        await asyncio.Event().wait()
        raise AssertionError("nobody sends anything")

    async def stop(self) -> None:
        self.reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.reading


@pytest.mark.parametrize("leaves", [False, True], ids=["reads to the end", "leaves"])
async def test_a_stream_without_news_is_not_silent(
    leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "QUIET_S", 0.01)
    sent: list[bytes] = []
    closed: list[bool] = []

    async def events() -> AsyncIterator[tuple[str, Any]]:
        try:
            yield "position", {"ahead": 1}
            while len(sent) < 5:
                await asyncio.sleep(0.01)
            yield "position", {"ahead": 0}
        finally:
            closed.append(True)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body", b""))
        if leaves and sent[-1].startswith(b":"):
            raise ConnectionResetError

    sending = asyncio.wait_for(exchange.Stream(200, events=events()).send(send), LIMIT_S)
    if leaves:
        with pytest.raises(ConnectionResetError):
            await sending
    else:
        await sending
        news = [each for each in sent if each.startswith(b"event")]
        assert [each.split(b"data: ")[1] for each in news] == [
            b'{"ahead":1}\n\n',
            b'{"ahead":0}\n\n',
        ]
    assert b": no news\n\n" in sent
    assert closed == [True]

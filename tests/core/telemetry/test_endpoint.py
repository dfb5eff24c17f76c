import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from waystation.core.telemetry.endpoint import serve
from waystation.core.telemetry.metrics import Metrics


@pytest.fixture
async def port() -> AsyncIterator[int]:
    metrics = Metrics()
    metrics.jobs_completed.of("mail").inc(3)
    server = await serve(metrics, port=0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def ask(port: int, request: bytes) -> tuple[bytes, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head, body


async def test_the_numbers_are_at_metrics(port: int) -> None:
    head, body = await ask(port, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b'jobs_completed_total{queue="mail"} 3.0\n' in body


async def test_a_head_request_gets_no_body(port: int) -> None:
    head, body = await ask(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b""


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"nonsense", b"404 Not Found"),
    ],
)
async def test_anything_else_is_refused(port: int, request_head: bytes, status: bytes) -> None:
    head, _ = await ask(port, request_head + b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("noise", [b"", b"GET /metrics", b"x" * 100_000])
async def test_a_caller_that_makes_no_sense_does_not_disturb_the_next(
    port: int, noise: bytes
) -> None:
    with suppress(ConnectionError):
        await ask(port, noise)
    head, _ = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")

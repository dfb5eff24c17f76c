"""Pages for those who watch a process: its numbers, whether it is alive, whether it is ready."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TypeAlias

import msgspec

from waystation.core.telemetry.metrics import CONTENT_TYPE, Metrics

# A request line longer than the reader's buffer, or slower than this, is nobody we know.
_PATIENCE_S = 5.0

Readiness: TypeAlias = Callable[[], Awaitable[Mapping[str, bool]]]
"""Tells what has to be well before work should be sent to a process, and whether it is."""


async def serve(
    metrics: Metrics, *, port: int, host: str = "127.0.0.1", ready: Readiness | None = None
) -> asyncio.Server:
    """Answer GET /metrics until the server is closed; port 0 takes a free one.

    With `ready` there are also /healthz, which answers while the process turns, and /readyz.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _respond(request, metrics, ready))
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port)


async def _respond(request: bytes, metrics: Metrics, ready: Readiness | None) -> bytes:
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if path not in (b"/metrics", *((b"/healthz", b"/readyz") if ready else ())):
        return _page(HTTPStatus.NOT_FOUND, b"The numbers are at /metrics.\n")
    if method not in (b"GET", b"HEAD"):
        return _page(HTTPStatus.METHOD_NOT_ALLOWED, b"This can only be read.\n")
    with_body = method == b"GET"
    if path == b"/healthz":
        return _page(HTTPStatus.OK, b"alive\n", with_body=with_body)
    if path == b"/readyz" and ready:
        checks = await ready()
        status = HTTPStatus.OK if all(checks.values()) else HTTPStatus.SERVICE_UNAVAILABLE
        return _page(status, msgspec.json.encode(checks), with_body=with_body)
    return _page(HTTPStatus.OK, metrics.expose(), with_body=with_body)


def _page(status: HTTPStatus, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")

"""Pages for those who watch a process: its numbers, whether it is alive, whether it is ready."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from waystation.core.telemetry.metrics import CONTENT_TYPE

# A request line longer than the reader's buffer, or slower than this, is nobody we know.
_PATIENCE_S = 5.0

Readiness: TypeAlias = Callable[[], Awaitable[Mapping[str, bool]]]
"""Says what has to be well before work should be sent to a process, and whether it is."""


class Exposes(Protocol):
    """Something with metrics."""

    def expose(self) -> bytes | Awaitable[bytes]:
        """All numbers in Prometheus' text format."""
        ...


async def serve(
    metrics: Exposes, *, port: int, host: str = "127.0.0.1", ready: Readiness | None = None
) -> asyncio.Server:
    """Answer GET /metrics, /healthz and /readyz until closed; port 0 takes a free one.

    /healthz answers while the event loop turns, /readyz with what `ready` says, else likewise.
    """
    return await asyncio.start_server(_answering(metrics, ready), host, port)


async def serve_at(socket: Path, metrics: Exposes) -> asyncio.Server:
    """Answer GET /metrics at a socket in the file system until the server is closed."""
    return await asyncio.start_unix_server(_answering(metrics, None), socket)


async def read_at(socket: Path) -> bytes:
    """The numbers that a process shows at such a socket."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()


def _answering(
    metrics: Exposes, ready: Readiness | None
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _respond(request, metrics, ready or _alive))
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    return answer


async def _alive() -> dict[str, bool]:
    return {"running": True}


async def _respond(request: bytes, metrics: Exposes, ready: Readiness) -> bytes:
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if path not in (b"/metrics", b"/healthz", b"/readyz"):
        return _page(HTTPStatus.NOT_FOUND, b"The numbers are at /metrics.\n")
    if method not in (b"GET", b"HEAD"):
        return _page(HTTPStatus.METHOD_NOT_ALLOWED, b"This can only be read.\n")
    with_body = method == b"GET"
    if path == b"/healthz":
        return _page(HTTPStatus.OK, b"alive\n", with_body=with_body)
    if path == b"/readyz":
        checks = await ready()
        status = HTTPStatus.OK if all(checks.values()) else HTTPStatus.SERVICE_UNAVAILABLE
        return _page(status, msgspec.json.encode(checks), with_body=with_body)
    page = metrics.expose()
    body = await page if inspect.isawaitable(page) else page
    return _page(HTTPStatus.OK, body, with_body=with_body)


def _page(status: HTTPStatus, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")

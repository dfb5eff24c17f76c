"""A page at /metrics for Prometheus to read, and nothing else."""

import asyncio
from http import HTTPStatus

from waystation.core.telemetry.metrics import CONTENT_TYPE, Metrics

# A request line longer than the reader's buffer, or slower than this, is nobody we know.
_PATIENCE_S = 5.0


async def serve(metrics: Metrics, *, port: int, host: str = "127.0.0.1") -> asyncio.Server:
    """Answer GET /metrics until the server is closed; port 0 takes a free one."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(_respond(request, metrics))
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port)


def _respond(request: bytes, metrics: Metrics) -> bytes:
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if path != b"/metrics":
        return _page(HTTPStatus.NOT_FOUND, b"The numbers are at /metrics.\n")
    if method not in (b"GET", b"HEAD"):
        return _page(HTTPStatus.METHOD_NOT_ALLOWED, b"The numbers can only be read.\n")
    return _page(HTTPStatus.OK, metrics.expose(), with_body=method == b"GET")


def _page(status: HTTPStatus, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")

"""A stream of events, read backwards to find what has become of a job."""

from collections.abc import AsyncGenerator
from typing import Any, cast

from waystation.core.store import faults
from waystation.core.store.script import Client

_PAGE = 500
MOST_EVENTS = 10_000
"""What came before so many events is not worth the time of the server."""


async def newest_first(
    client: Client, stream: str
) -> AsyncGenerator[tuple[bytes, dict[bytes, bytes]]]:
    """The ids and fields of a stream's newest events, from the last back."""
    end = "+"
    for _ in range(MOST_EVENTS // _PAGE):
        with faults.translated():
            page: list[Any] = await client.execute_command(
                "XREVRANGE", stream, end, "-", "COUNT", _PAGE
            )
        for id, fields in page:
            yield id, _mapping(fields)
        if len(page) < _PAGE:
            return
        end = f"({page[-1][0].decode()}"


def _mapping(fields: Any) -> dict[bytes, bytes]:
    # Our own pipe hands out what the server sends; redis-py, on a cluster, a mapping.
    if isinstance(fields, list):
        flat = cast(list[bytes], fields)
        return dict(zip(flat[::2], flat[1::2], strict=True))
    return fields

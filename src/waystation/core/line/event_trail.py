"""A stream of events: read backwards to find what has become of a job, or followed as it grows."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeAlias, cast

from waystation.core.store.commands import ask, fields_of
from waystation.core.store.script import Client

Entry: TypeAlias = tuple[bytes, dict[bytes, bytes]]
"""An id and the fields behind it."""

BEGINNING = "0-0"
"""The place before every entry."""
MOST_EVENTS = 10_000
"""What came before so many events is not worth the time of the server."""
_PAGE = 500


async def newest_first(client: Client, stream: str) -> AsyncGenerator[Entry]:
    """The ids and fields of a stream's newest events, from the last back."""
    end = "+"
    for _ in range(MOST_EVENTS // _PAGE):
        page: list[Any] = await ask(client, "XREVRANGE", stream, end, "-", "COUNT", _PAGE)
        for id, fields in page:
            yield id, fields_of(fields)
        if len(page) < _PAGE:
            return
        end = f"({page[-1][0].decode()}"


async def newest_id(client: Client, stream: str) -> str:
    """The id of a stream's newest entry; the place before every entry when there is none."""
    newest = await ask(client, "XREVRANGE", stream, "+", "-", "COUNT", 1)
    return newest[0][0].decode() if newest else BEGINNING


async def read_on(
    client: Client, stream: str, after: str, *, most: int, block_s: float
) -> Sequence[Entry]:
    """The entries behind one; where there are none, those that come in so many seconds.

    A call that blocks needs a connection of its own.
    """
    block_ms = max(1, round(block_s * 1000))
    answer = await ask(client, "XREAD", "COUNT", most, "BLOCK", block_ms, "STREAMS", stream, after)
    if not answer:
        return ()
    # RESP3 answers with a mapping, RESP2 with pairs; there is one stream in either.
    if isinstance(answer, dict):
        ((entries,),) = cast(dict[bytes, Any], answer).values()
    else:
        ((_, entries),) = answer
    return [(id, fields_of(fields)) for id, fields in entries]

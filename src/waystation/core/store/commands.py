"""Commands to the store that need no script: single ones, and those that read a stream."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeAlias, cast

from waystation.core.store import faults
from waystation.core.store.script import Client


async def ask(client: Client, *command: Any) -> Any:
    """Send one command."""
    with faults.translated():
        return await client.execute_command(*command)


async def ask_all(client: Client, *commands: tuple[Any, ...]) -> list[Any]:
    """Send several commands at once; they are not atomic."""
    return await asyncio.gather(*(ask(client, *command) for command in commands))


async def server_ms(client: Client) -> int:
    """Milliseconds since 1970 by the store's clock."""
    whole, micros = await ask(client, "TIME")
    return int(whole) * 1000 + int(micros) // 1000


def fields_of(answer: Any) -> dict[bytes, Any]:
    """Fields and values, or members and scores, from any form in which a client returns them."""
    # Our own pipe hands out what the server sends; redis-py, on a cluster, a mapping.
    if isinstance(answer, dict):
        return cast(dict[bytes, Any], answer)
    found = cast(list[Any], answer)
    if found and isinstance(found[0], tuple):
        return dict(cast(list[tuple[bytes, Any]], found))
    return dict(zip(found[::2], found[1::2], strict=True))


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

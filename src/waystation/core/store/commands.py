"""Single commands to the store, for what needs no script; errors of the client become ours."""

import asyncio
from typing import Any, cast

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

"""Plain commands, for what needs no script."""

import asyncio
from typing import Any

from waystation.core.store import faults
from waystation.core.store.script import Client


async def ask(client: Client, *command: str | int) -> Any:
    """Send one command; what goes wrong is told in our words."""
    with faults.translated():
        return await client.execute_command(*command)


async def ask_all(client: Client, *commands: tuple[str | int, ...]) -> list[Any]:
    """Send several commands at once; nothing promises that nobody comes between them."""
    return await asyncio.gather(*(ask(client, *command) for command in commands))

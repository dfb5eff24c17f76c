"""The console of one assistant, opened when it is first needed."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from waystation.console.context import Console
from waystation.console.finding.names import Places
from waystation.console.measures.live import Live
from waystation.console.options import ConsoleOptions
from waystation.core.operators.operators import Operator, Role
from waystation.core.store.connection import Store

NAME = "assistant"
"""The name in the audit log of whoever acts through a tool."""


class Access:
    """The store, the console over it, and what the assistant may do.

    A store that is away when the assistant starts is asked for again at every call.
    """

    def __init__(
        self,
        open: Callable[[], AbstractAsyncContextManager[Store]],
        options: ConsoleOptions,
        places: Places,
        *,
        role: Role = Role.VIEWER,
    ) -> None:
        self.places = places
        self.who = Operator(name=NAME, role=role)
        self._open = open
        self._options = options
        self._opened = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._console: Console | None = None
        self._live: Live | None = None

    async def console(self) -> Console:
        """The parts of the console; StoreUnreachable while the store is away."""
        async with self._opening:
            if self._console is None:
                store = await self._opened.enter_async_context(self._open())
                self._console = Console(store, self._options)
            return self._console

    async def measured(self) -> Console:
        """The console with all queues as they are now; nothing measures them between two calls."""
        console = await self.console()
        await console.sampler.take()
        return console

    async def live(self) -> Live:
        """What measures all queues and rooms."""
        console = await self.console()
        if self._live is None:
            self._live = Live(console.store, self.places)
        return self._live

    async def close(self) -> None:
        """Close the store."""
        if self._console is not None:
            await self._console.redrives.close()
        await self._opened.aclose()

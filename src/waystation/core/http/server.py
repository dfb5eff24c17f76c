"""The HTTP server process."""

import asyncio
import gc
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeAlias

import uvloop
from granian.constants import Interfaces
from granian.server.embed import Server

from waystation.core.errors import InvalidOption
from waystation.core.http.exchange import Receive, Scope, Send

BACKLOG = 1024

Site: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def run(process: Coroutine[Any, Any, None]) -> NoReturn:
    """Serve on the loop that serves most, and end the process when that is over."""
    # What was imported stays; looking through all of it for garbage would keep visitors waiting.
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(process)
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread of the server that still lets go of a request while Python takes itself apart
    # aborts the process; everything of ours is closed by now.
    os._exit(0)


@asynccontextmanager
async def serving(
    app: Site, *, host: str, port: int, shared: bool = False
) -> AsyncGenerator[Callable[[], None]]:
    """Answer requests for as long as the block runs, or until what it gives is called.

    With `shared` the port may be that of other processes of ours, among which the kernel spreads
    connections.
    """
    if not shared:
        refuse_taken(host, port)
    server = Server(
        app,
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        websockets=False,
        log_enabled=False,
        backlog=BACKLOG,
    )
    task = asyncio.create_task(server.serve())
    try:
        await _listening(host, port, task)
        yield server.stop
    finally:
        server.stop()
        await asyncio.wait([task], timeout=10)


def refuse_taken(host: str, port: int) -> None:
    """Refuse a port that somebody listens on."""
    # The server shares its port with whoever shares it, too: another one left behind there would
    # answer every other visitor out of another store.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise InvalidOption(
            f"wanted a port that can be listened on, got {host}:{port} ({error.strerror})"
        ) from None


async def _listening(host: str, port: int, task: asyncio.Task[None]) -> None:
    while not task.done():
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
    await task
    raise OSError(f"cannot listen on {host}:{port}")

"""`waystation exporter`: how full the queues are, for Prometheus to read."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol

import typer

from waystation import bullmq, routing
from waystation.bullmq.redis.keys import PREFIX
from waystation.core.app import compose
from waystation.core.app.loading import loaded
from waystation.core.app.settings import StoreSettings, TelemetrySettings
from waystation.core.errors import InvalidOption, WaystationError
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.telemetry import endpoint
from waystation.core.telemetry.metrics import Metrics
from waystation.routing.settings import RoutingSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None)

UP = "# HELP waystation_store_up Whether the store answers\n# TYPE waystation_store_up gauge\n"


@app.command()
def exporter(
    context: typer.Context,
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="Queues of BullMQ.")
    ] = None,
    of_routing: Annotated[
        bool, typer.Option("--routing", help="The line of routing, too.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="What every key of BullMQ starts with.")] = PREFIX,
    host: Annotated[str, typer.Option(help="The interface to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65_535)] = 9464,
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=0.1)] = 5.0,
) -> None:
    """Serve the numbers of queues at /metrics until asked to stop.

    Workers tell what they do; this tells what waits, also while no worker runs, and what history
    advises. One process for each store is enough.
    """
    settings = loaded(context)
    if not queues and not of_routing:
        raise InvalidOption("wanted names of queues, --routing or both, got neither")
    compose.log_to_stderr(settings[TelemetrySettings])

    async def run() -> None:
        async with compose.store(
            settings[StoreSettings], wait_s=settings[StoreSettings].wait
        ) as store:
            lines: list[Line] = [bullmq.Queue(name, store, prefix=prefix) for name in queues or ()]
            if of_routing:
                lines.append(routing.Queue(store, namespace=settings[RoutingSettings].namespace))
            await _export(lines, host=host, port=port, every=every)

    asyncio.run(run())


class Line(Protocol):
    """Whatever can tell its numbers."""

    async def prometheus_text(self) -> str:
        """What Prometheus reads."""
        ...


class Numbers(Metrics):
    """What the lines told when they were last asked."""

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__()
        self._lines = lines
        self._told = b""

    async def look(self) -> None:
        """Ask every line; a store that does not answer is told of, not the numbers of before."""
        try:
            told = [await line.prometheus_text() for line in self._lines]
            self._told = f"{merged(told)}{UP}waystation_store_up 1\n".encode()
        except WaystationError:
            self._told = f"{UP}waystation_store_up 0\n".encode()

    def expose(self) -> bytes:
        """The last numbers, in Prometheus' text format."""
        return self._told


def merged(pages: Iterable[str]) -> str:
    """One page of several: what has one name must stand together."""
    families: dict[str, dict[str, None]] = {}
    for line in (line for page in pages for line in page.splitlines()):
        name = line.split()[2] if line.startswith("#") else line.partition("{")[0]
        families.setdefault(name, {})[line] = None
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


async def _export(lines: Sequence[Line], *, host: str, port: int, every: float) -> None:
    numbers = Numbers(lines)
    await numbers.look()
    try:
        server = await endpoint.serve(numbers, host=host, port=port)
    except OSError as error:
        raise InvalidOption(
            f"wanted a port that can be listened on, got {host}:{port} ({error.strerror})"
        ) from error
    async with server:
        at = server.sockets[0].getsockname()[1]
        typer.echo(f"the numbers are at http://{host}:{at}/metrics", err=True)
        looking = asyncio.create_task(Loop(numbers.look, every_s=every).run())
        await until_asked_to_stop()
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking

"""`waystation exporter`: metrics of the queues for Prometheus."""

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
        bool, typer.Option("--routing", help="The queue of routing, too.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="The prefix of BullMQ's keys.")] = PREFIX,
    host: Annotated[str, typer.Option(help="The interface to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65_535)] = 9464,
    every: Annotated[float, typer.Option(help="Seconds between updates.", min=0.1)] = 5.0,
) -> None:
    """Serve the metrics of queues at /metrics until asked to stop.

    Workers export what they do; this exports what waits, also while no worker runs, and the
    recommendations of the history. One process per store is enough.
    """
    settings = loaded(context)
    if not queues and not of_routing:
        raise InvalidOption("wanted names of queues, --routing or both, got neither")
    compose.log_to_stderr(settings[TelemetrySettings])

    async def run() -> None:
        async with compose.store(
            settings[StoreSettings], wait_s=settings[StoreSettings].wait
        ) as store:
            exported: list[Exported] = [
                bullmq.Queue(name, store, prefix=prefix) for name in queues or ()
            ]
            if of_routing:
                exported.append(routing.Queue(store, prefix=settings[RoutingSettings].namespace))
            await _export(exported, host=host, port=port, every=every)

    asyncio.run(run())


class Exported(Protocol):
    """A queue with metrics."""

    async def prometheus_text(self) -> str:
        """The metrics in Prometheus' text format."""
        ...


class Numbers(Metrics):
    """The metrics of several queues, as of the last update."""

    def __init__(self, queues: Sequence[Exported]) -> None:
        super().__init__()
        self._queues = queues
        self._page = b""
        self._up = False

    async def update(self) -> None:
        """Read all metrics; while the store does not answer, only that is exported."""
        try:
            pages = [await queue.prometheus_text() for queue in self._queues]
            self._page = f"{merged(pages)}{UP}waystation_store_up 1\n".encode()
            self._up = True
        except WaystationError:
            self._page = f"{UP}waystation_store_up 0\n".encode()
            self._up = False

    async def readiness(self) -> dict[str, bool]:
        """Whether the store answered the last update."""
        return {"store": self._up}

    def expose(self) -> bytes:
        """The metrics, in Prometheus' text format."""
        return self._page


def merged(pages: Iterable[str]) -> str:
    """Several pages as one; all samples of a metric must follow each other."""
    families: dict[str, dict[str, None]] = {}
    for line in (line for page in pages for line in page.splitlines()):
        name = line.split()[2] if line.startswith("#") else line.partition("{")[0]
        families.setdefault(name, {})[line] = None
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


async def _export(queues: Sequence[Exported], *, host: str, port: int, every: float) -> None:
    numbers = Numbers(queues)
    await numbers.update()
    try:
        server = await endpoint.serve(numbers, host=host, port=port, ready=numbers.readiness)
    except OSError as error:
        raise InvalidOption(
            f"wanted a port that can be listened on, got {host}:{port} ({error.strerror})"
        ) from error
    async with server:
        at = server.sockets[0].getsockname()[1]
        typer.echo(f"metrics at http://{host}:{at}/metrics", err=True)
        updating = asyncio.create_task(Loop(numbers.update, every_s=every).run())
        await until_asked_to_stop()
        updating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await updating

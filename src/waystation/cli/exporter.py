"""`waystation exporter`: metrics of the queues for Prometheus."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple, Protocol

import typer

from waystation import bullmq, routing
from waystation.bullmq import metrics as bullmq_metrics
from waystation.bullmq.redis.keys import PREFIX
from waystation.console.directory import Directory
from waystation.console.options import ConsoleOptions
from waystation.core.app import compose
from waystation.core.app.invocation import loaded
from waystation.core.app.settings import StoreSettings, TelemetrySettings
from waystation.core.errors import InvalidOption, StoreBusy, StoreUnreachable, WaystationError
from waystation.core.line import prometheus
from waystation.core.line.prometheus import Family
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.telemetry import endpoint
from waystation.core.telemetry.logs import describe, get_logger
from waystation.core.telemetry.metrics import Metrics
from waystation.files.settings import FilesSettings, layout
from waystation.routing.settings import RoutingSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None)
_log = get_logger(__name__)

UP = Family("waystation_store_up", "gauge", (), "Whether the store answers.")
FAMILIES = (UP, *bullmq_metrics.FAMILIES, *prometheus.FAMILIES)
"""All that is exported."""


@app.command()
def exporter(
    context: typer.Context,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUEUE", help="Queues of BullMQ; without any, all of the store."),
    ] = None,
    of_routing: Annotated[
        bool, typer.Option("--routing", help="The queue of routing, beside named ones.")
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
    compose.log_to_stderr(settings[TelemetrySettings])
    namespace = settings[RoutingSettings].namespace

    async def run() -> None:
        async with compose.store(
            settings[StoreSettings], wait_s=settings[StoreSettings].wait
        ) as store:
            if queues or of_routing:
                exported: list[Exported] = [
                    bullmq.Queue(name, store, prefix=prefix) for name in queues or ()
                ]
                exported += [routing.Queue(store, prefix=namespace)] if of_routing else []
                numbers = Numbers(Fixed(exported))
            else:
                options = ConsoleOptions(
                    prefixes=(prefix,),
                    namespaces=(namespace,),
                    layouts=(layout(settings[FilesSettings]),),
                )
                numbers = Numbers(AllQueues(Directory(store, options, most=None)))
            await _export(numbers, host=host, port=port, every=every)

    asyncio.run(run())


class Exported(Protocol):
    """A queue with metrics."""

    async def prometheus_text(self) -> str:
        """The metrics in Prometheus' text format."""
        ...


class Exporting(Protocol):
    """Says which queues are exported."""

    async def known(self) -> Sequence[Exported]:
        """The queues that there are now."""
        ...


class Fixed(NamedTuple):
    """Queues that somebody has named."""

    queues: Sequence[Exported]

    async def known(self) -> Sequence[Exported]:
        """The same ones always."""
        return self.queues


class AllQueues(NamedTuple):
    """Every queue of BullMQ under a prefix, and routing and files where somebody uses them."""

    directory: Directory

    async def known(self) -> Sequence[Exported]:
        """The queues that there are now, or were a while ago."""
        await self.directory.look_if_due()
        return self.directory.every()


class Numbers(Metrics):
    """The metrics of several queues, as of the last update."""

    def __init__(self, queues: Exporting) -> None:
        super().__init__()
        self._queues = queues
        self._page = b""
        self._up = False
        self._left_out: set[str] = set()

    async def update(self) -> None:
        """Read all metrics; while the store does not answer, only that is exported."""
        left_out: set[str] = set()
        try:
            pages = [await self._read(queue, left_out) for queue in await self._queues.known()]
            self._page = (merged(pages) + _up(1)).encode()
            self._up = True
        except WaystationError:
            self._page = _up(0).encode()
            self._up = False
        self._left_out = left_out

    async def _read(self, queue: Exported, left_out: set[str]) -> str:
        """The metrics of one queue; nothing, and a line in the log, where it cannot be read."""
        try:
            return await queue.prometheus_text()
        except (StoreUnreachable, StoreBusy):
            raise
        except WaystationError as error:
            left_out.add(str(error))
            if str(error) not in self._left_out:
                _log.error("queue_not_exported", **describe(error))
            return ""

    async def readiness(self) -> dict[str, bool]:
        """Whether the store answered the last update."""
        return {"store": self._up}

    def expose(self) -> bytes:
        """The metrics, in Prometheus' text format."""
        return self._page


def _up(value: int) -> str:
    return prometheus.joined(UP.lines([({}, value)]))


def merged(pages: Iterable[str]) -> str:
    """Several pages as one; all samples of a metric must follow each other."""
    families: dict[str, dict[str, None]] = {}
    for line in (line for page in pages for line in page.splitlines()):
        name = line.split()[2] if line.startswith("#") else line.partition("{")[0]
        families.setdefault(name, {})[line] = None
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


async def _export(numbers: Numbers, *, host: str, port: int, every: float) -> None:
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

"""The roles of a files process: what each does until it is asked to stop."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from waystation.core.app import compose
from waystation.core.app.settings import StoreSettings, TelemetrySettings
from waystation.core.errors import NotReplicated, StoreBusy, StoreError, StoreUnreachable
from waystation.core.runtime.service import serve
from waystation.core.settings.load import Settings
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import Reconnect
from waystation.core.telemetry.logs import describe, get_logger
from waystation.files.commands import wiring as composed
from waystation.files.handlers import registered
from waystation.files.producer import Producer, Tally
from waystation.files.queue import Queue
from waystation.files.settings import FilesFile, FilesSettings
from waystation.files.worker import Worker

_log = get_logger(__name__)


async def run(
    loaded: FilesFile,
    general: Settings,
    *,
    produce: bool,
    work: bool,
    watch: bool,
    until_done: bool,
) -> None:
    """Scan, work, or both, until a signal comes or nothing is left to do."""
    settings = loaded.settings
    seen = composed.telemetry_settings(settings, general[TelemetrySettings])
    compose.log_to_stderr(seen)
    if produce:
        composed.require_scan_dir(loaded)
    if work:
        composed.import_handlers(loaded)
    checks = _Checks()
    async with (
        compose.telemetry(
            seen,
            queues=composed.named_queues(settings),
            ready=checks,
            names=composed.telemetry_names(loaded),
        ) as telemetry,
        composed.store(settings, general, wait_s=general[StoreSettings].wait) as store,
    ):
        queue = Queue(
            store, layout=composed.layout(settings), options=composed.queue_options(settings)
        )
        scan = _Scan(queue, settings, telemetry, watch=watch) if produce else None
        async with _worker(store, settings, telemetry, checks if work else None) as worker:
            with contextlib.ExitStack() as shown:
                if scan:
                    shown.enter_context(scan.shown())
                await _served(scan, worker, queue, until_done=until_done)


async def _served(
    scan: "_Scan | None", worker: Worker | None, queue: Queue, *, until_done: bool
) -> None:
    running = [each for each in (scan, worker) if each]
    watching = asyncio.create_task(_stop_when_done(scan, worker, queue)) if until_done else None
    try:
        await serve(running)
    finally:
        if watching:
            watching.cancel()


async def _stop_when_done(scan: "_Scan | None", worker: Worker | None, queue: Queue) -> None:
    if worker is None:
        return
    if scan:
        await scan.finished.wait()
    ends = (queue.keys.completed, queue.keys.dead_letter)
    while True:
        # While the store is away, nobody can say that nothing is left.
        with contextlib.suppress(StoreError):
            counts = await queue.lengths()
            if not worker.held and not sum(n for name, n in counts.items() if name not in ends):
                worker.stop()
                return
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _worker(
    store: Store,
    settings: FilesSettings,
    telemetry: compose.Telemetry,
    checks: "_Checks | None",
) -> AsyncGenerator[Worker | None]:
    if checks is None:
        yield None
        return
    worker = Worker(
        registered,
        store,
        layout=composed.layout(settings),
        options=composed.worker_options(settings),
        metrics=telemetry.metrics,
        traces=telemetry.traces,
    )
    checks.worker = worker
    async with worker:
        yield worker


class _Checks:
    """Answers /readyz, before and after there is a worker."""

    worker: Worker | None = None

    async def __call__(self) -> dict[str, bool]:
        return await self.worker.readiness() if self.worker else {"running": True}


class _Scan:
    """A producer in the shape that the service runs: it can be run, and asked to stop."""

    def __init__(
        self, queue: Queue, settings: FilesSettings, telemetry: compose.Telemetry, *, watch: bool
    ) -> None:
        self._show: Callable[[Tally], None] = lambda tally: None
        self._watch = watch
        self.finished = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._producer = Producer(
            queue,
            composed.producer_options(settings),
            metrics=telemetry.metrics,
            traces=telemetry.traces,
            on_progress=lambda tally: self._show(tally),
        )

    async def run(self) -> None:
        """Scan until done, or until asked to stop when watching."""
        self._task = asyncio.create_task(self._scan())
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self.finished.set()

    def stop(self) -> None:
        """Add no more files; what is half done is found again the next time."""
        if self._task:
            self._task.cancel()

    async def _scan(self) -> None:
        patience = Reconnect()
        while True:
            try:
                step = self._producer.watch if self._watch else self._producer.scan
                await step()
            except (StoreUnreachable, StoreBusy, NotReplicated) as error:
                # Whatever has got there all the same is found to be known.
                _log.warning("producer_delayed", product="files", **describe(error))
                await patience.pause()
            else:
                break
        tally = self._producer.tally
        _log.info("scan_finished", count=tally.enqueued, product="files")

    @contextlib.contextmanager
    def shown(self) -> Generator[None]:
        """Show how far the scan is: a bar on a terminal, one sentence at the end elsewhere."""
        if not sys.stderr.isatty():
            yield
            print(_sentence(self._producer.tally), file=sys.stderr)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("scanning", total=None)

            def show(tally: Tally) -> None:
                bar.update(task, description=_sentence(tally))

            self._show = show
            yield


def counted(number: int, thing: str) -> str:
    """A number and its noun, such as `1 file` or `2,000 files`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _sentence(tally: Tally) -> str:
    found = counted(tally.found, "file")
    skipped = ", ".join(f"{count:,} {why.value}" for why, count in sorted(tally.skipped.items()))
    return (
        f"{found} found, {tally.enqueued:,} added, {tally.known:,} known"
        f"{f' ({skipped} left out)' if skipped else ''}"
    )

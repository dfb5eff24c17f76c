"""The store and telemetry of a command, opened as its settings say."""

import asyncio
import errno
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec

from waystation.core.app import imports
from waystation.core.app.settings import StoreSettings, TelemetrySettings, TracingSettings
from waystation.core.errors import InvalidSetting, StoreError
from waystation.core.runtime.service import calling_on_signals
from waystation.core.runtime.tasks import end
from waystation.core.store.connection import Store, connect
from waystation.core.store.reconnect import waiting
from waystation.core.store.server import require_suitable
from waystation.core.telemetry import logs
from waystation.core.telemetry.traces import Traces

if TYPE_CHECKING:
    from prometheus_client import Histogram

    from waystation.core.telemetry import endpoint
    from waystation.core.telemetry.metrics import Metrics

_PATIENCE_S = 2.0
"""A store that takes longer to answer a ping is not one to send work to."""


class Works(Protocol):
    """A part of a process that can end before the process does."""

    @property
    def is_running(self) -> bool:
        """Whether it is at work."""
        ...


class Health:
    """Answers /readyz: not before the process has started, and while its store answers."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._running: Sequence[Works] = ()

    def watch(self, store: Store, running: Sequence[Works] = ()) -> None:
        """Be ready from now on, while the store answers and all of these run."""
        self._store = store
        self._running = running

    async def __call__(self) -> dict[str, bool]:
        """What has to be well, and whether it is."""
        if self._store is None:
            return {"started": False}
        checks = {"store": await _answers(self._store)}
        if self._running:
            checks["workers"] = all(each.is_running for each in self._running)
        return checks


async def _answers(store: Store) -> bool:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await store.ask("PING")
    except (StoreError, TimeoutError):
        return False
    return True


_log = logs.get_logger(__name__)


class TelemetryNames(msgspec.Struct, frozen=True):
    """The names of the telemetry settings in the file that the user wrote."""

    section: str = "telemetry"
    port: str = "telemetry.metrics_port"
    port_is_default: bool = False
    """The port is only the default, so the process runs without it when it is taken."""


class Telemetry(msgspec.Struct, frozen=True):
    """Metrics and traces of a running process."""

    metrics: "Metrics"
    traces: Traces
    health: Health
    """Set by the process when it is ready; answers /readyz."""


@asynccontextmanager
async def store(settings: StoreSettings, *, wait_s: float = 0.0) -> AsyncGenerator[Store]:
    """Open the store that the settings name, or this directory's own, if it is suitable.

    A store that is away or loading is waited for, `wait_s` seconds at most.
    """
    # A server of our own that does not start will not do so later.
    wait_s = wait_s if settings.url else 0.0
    async with await suitable(lambda: reach(settings), wait_s=wait_s) as reached:
        yield reached


async def suitable(open: Callable[[], Awaitable[Store]], *, wait_s: float) -> Store:
    """Open a store and check it; SIGTERM or SIGINT while waiting for it ends the process."""

    async def step() -> Store:
        store = await open()
        try:
            await require_suitable(store.redis)
        except BaseException:
            await store.close()
            raise
        return store

    if not wait_s:
        return await step()
    scope = asyncio.timeout(None)
    try:
        async with scope:
            with calling_on_signals(lambda: scope.reschedule(0)):
                return await waiting(step, at_most_s=wait_s)
    except TimeoutError:
        if scope.expired():
            raise SystemExit(0) from None
        raise


async def reach(settings: StoreSettings) -> Store:
    """Open the store without asking whether it is suitable."""
    return await connect(settings.url, settings)


def log_to_stderr(settings: TelemetrySettings) -> None:
    """Write the logs of this process to stderr.

    Called before the user's module is imported: its `logging.basicConfig` then changes nothing, and
    a configuration that is meant to replace ours does.
    """
    format = settings.log_format
    if format == "auto":
        format = "console" if sys.stderr.isatty() else "json"
    logs.configure(level=settings.log_level, format=format, redact=settings.redact)


@asynccontextmanager
async def telemetry(
    settings: TelemetrySettings,
    *,
    queues: Collection[str] | None = None,
    ready: "endpoint.Readiness | None" = None,
    names: TelemetryNames | None = None,
) -> AsyncGenerator[Telemetry]:
    """Set up metrics and traces for as long as the process runs.

    `queues` are the only values of the label queue; `ready` answers /readyz instead of the health
    that is yielded; `names` are the names of the settings in errors.
    """
    # Most commands only ask the store: they need none of what this loads.
    from waystation.core.telemetry.metrics import Metrics

    names = names or TelemetryNames()
    metrics = Metrics(allow=None if queues is None else {"queue": queues})
    logs.count_rejected(metrics.log_rejected_keys.of().inc)
    with _spans_sent(settings.tracing, names):
        health = Health()
        async with metrics_served(settings, metrics, ready or health, names):
            observing = asyncio.create_task(observe_lag(metrics.loop_lag.of()))
            try:
                yield Telemetry(metrics, Traces(), health)
            finally:
                await end([observing])


@contextmanager
def _spans_sent(settings: TracingSettings, names: TelemetryNames) -> Generator[None]:
    if not settings.enabled:
        yield
        return
    tracing = imports.load(
        "waystation.core.app.tracing", extra="tracing", purpose=f"{names.section}.tracing"
    )
    provider = tracing.send_to(settings.endpoint)
    try:
        yield
    finally:
        provider.shutdown()


@asynccontextmanager
async def metrics_served(
    settings: TelemetrySettings,
    metrics: "endpoint.Exposes",
    ready: "endpoint.Readiness | None" = None,
    names: TelemetryNames | None = None,
) -> AsyncGenerator[None]:
    """Serve metrics where the settings say, if they do."""
    names = names or TelemetryNames()
    if settings.metrics_port is None:
        yield
        return
    from waystation.core.telemetry import endpoint

    host, port = settings.metrics_host, settings.metrics_port
    try:
        server = await endpoint.serve(metrics, host=host, port=port, ready=ready)
    except OSError as error:
        if names.port_is_default and error.errno == errno.EADDRINUSE:
            _log.warning(
                f"metrics_not_served: the default port is taken; set {names.port} to serve them",
                port=port,
            )
            yield
            return
        raise InvalidSetting(
            f"{names.port} wants a port that can be listened on, "
            f"got {host}:{port} ({error.strerror})"
        ) from error
    async with server:
        yield


async def observe_lag(lag: "Histogram", *, every_s: float = 1.0) -> None:
    """Observe the lag once in each interval, until cancelled.

    The instants are fixed beforehand. Those that pass while the loop is blocked are observed
    afterwards, one by one, so that a long block weighs as much as the time it took.
    """
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due += every_s
        await asyncio.sleep(max(0.0, due - loop.time()))
        # The loop rounds, and may wake up a little early.
        lag.observe(max(0.0, loop.time() - due))

"""`--processes`: several processes that run one command, watched over by one that does not work.

Each process answers with its metrics at a socket of its own, which is there as soon as it works;
the one that watches adds them up.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from waystation.core.app import compose
from waystation.core.app.settings import TelemetrySettings
from waystation.core.backoff import Backoff, Growth
from waystation.core.telemetry import endpoint
from waystation.core.telemetry.logs import get_logger
from waystation.core.telemetry.metrics import Metrics

_log = get_logger(__name__)

_SOCKET = "WAYSTATION_FLEET_SOCKET"
_LIFELINE = "WAYSTATION_FLEET_LIFELINE"
_ALL = "all.sock"
"""Where the one that watches answers with the metrics of all."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_ANSWER_WITHIN_S = 2.0
_LONG_ENOUGH_S = 60.0
"""A process that lived that long starts again without a pause."""
_RESTARTS = Backoff(Growth.EXPONENTIAL, delay_ms=500, cap_ms=30_000, jitter=0.5)
_DICE = random.Random()


def is_member() -> bool:
    """Whether this process is one of several that were started together."""
    return _SOCKET in os.environ


def telemetry_of_this_process(settings: TelemetrySettings) -> TelemetrySettings:
    """The settings without a port where the process that watches serves the metrics of all."""
    return msgspec.structs.replace(settings, metrics_port=None) if is_member() else settings


def supervise(processes: int, settings: TelemetrySettings, *, alike: str = "") -> None:
    """Return at once in a process that works; with several, watch over them and never return.

    Gauges whose names begin with `alike` are the same in all of them.
    """
    if processes > 1 and not is_member():
        command = [sys.executable, "-m", "waystation", *sys.argv[1:]]
        sys.exit(asyncio.run(Fleet(command, processes, alike=alike).run(settings)))


async def page_of_all(metrics: Metrics) -> bytes:
    """The metrics of all processes that were started together; of this one if it is alone."""
    if is_member():
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(2 * _ANSWER_WITHIN_S):
                return await endpoint.read_at(Path(os.environ[_SOCKET]).with_name(_ALL))
    return metrics.expose()


@contextlib.asynccontextmanager
async def membership(metrics: Metrics) -> AsyncGenerator[None]:
    """Show the metrics to the process that watches, and end when it does; for others nothing."""
    if not is_member():
        yield
        return
    lifeline, loop = int(os.environ[_LIFELINE]), asyncio.get_running_loop()

    def left_alone() -> None:
        # Nobody is there any more who would start it again, or pass on a signal.
        loop.remove_reader(lifeline)
        os.kill(os.getpid(), signal.SIGTERM)

    socket = Path(os.environ[_SOCKET])
    async with await endpoint.serve_at(socket, metrics):
        # Newer Pythons remove the socket at the end, and that it has worked must be seen then.
        _sign_of(socket).touch()
        loop.add_reader(lifeline, left_alone)
        try:
            yield
        finally:
            loop.remove_reader(lifeline)


class Fleet:
    """Runs a command in several processes until asked to stop; one that ends is started again."""

    def __init__(self, command: Sequence[str], processes: int, *, alike: str = "") -> None:
        self._command = command
        self._alike = alike
        self._members = [_Member(number) for number in range(1, processes + 1)]
        self._stopping = asyncio.Event()
        self._code = 0

    async def run(self, settings: TelemetrySettings) -> int:
        """Run; returns 0, or the exit code of a process that failed."""
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._stop, each)
        reading, writing = os.pipe()
        try:
            with tempfile.TemporaryDirectory(prefix="waystation-") as folder:
                for member in self._members:
                    member.socket = Path(folder, f"{member.number}.sock")
                async with (
                    compose.metrics_served(settings, self, self.ready),
                    await endpoint.serve_at(Path(folder, _ALL), self),
                    asyncio.TaskGroup() as group,
                ):
                    for member in self._members:
                        group.create_task(self._keep(member, reading))
            return self._code
        finally:
            os.close(reading)
            os.close(writing)
            for each in _SIGNALS:
                loop.remove_signal_handler(each)

    @property
    def sockets(self) -> list[Path]:
        """Where the processes answer with their metrics."""
        return [member.socket for member in self._members]

    async def expose(self) -> bytes:
        """The metrics of all processes, added up."""
        pages = await asyncio.gather(*(member.page() for member in self._members))
        return summed(pages, alike=self._alike)

    async def ready(self) -> Mapping[str, bool]:
        """Which of the processes work."""
        return {f"process_{member.number}": member.is_ready for member in self._members}

    async def _keep(self, member: "_Member", lifeline: int) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            code = await member.run(self._command, lifeline, self._stopping)
            if self._stopping.is_set():
                # Ended by the signal itself: it had not begun, so there was nothing to finish.
                self._code = self._code or (0 if -code in _SIGNALS else code)
                return
            if not member.was_ready:
                # It has never worked, so what is wrong is wrong for all of them.
                self._code = code or 1
                self._stop(signal.SIGTERM)
                return
            failures = 0 if time.monotonic() - began >= _LONG_ENOUGH_S else failures + 1
            pause_ms = _RESTARTS.pause_ms(failures, _DICE) if failures else 0
            _log.error(
                "process_ended", process_number=member.number, exit_code=code, delay_ms=pause_ms
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._stopping.wait()

    def _stop(self, number: signal.Signals) -> None:
        # A second signal means that they should not finish their jobs; they decide themselves.
        self._stopping.set()
        for member in self._members:
            member.send(number)


class _Member:
    """One of the processes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.socket = Path()
        self._process: asyncio.subprocess.Process | None = None
        self._last = b""
        self._before = b""
        """What its predecessors have counted."""

    @property
    def is_ready(self) -> bool:
        """Whether it works."""
        return self._process is not None and self.socket.exists()

    @property
    def was_ready(self) -> bool:
        """Whether it, or one before it, has ever worked."""
        return _sign_of(self.socket).exists()

    async def run(self, command: Sequence[str], lifeline: int, stopping: asyncio.Event) -> int:
        """Run once; returns the exit code."""
        self.socket.unlink(missing_ok=True)
        environ = {**os.environ, _SOCKET: str(self.socket), _LIFELINE: str(lifeline)}
        # A session of its own: Ctrl-C reaches only the one that watches, which passes it on once.
        self._process = process = await asyncio.create_subprocess_exec(
            *command, env=environ, pass_fds=[lifeline], start_new_session=True
        )
        if stopping.is_set():
            self.send(signal.SIGTERM)
        try:
            return await process.wait()
        finally:
            self._process = None
            self._before, self._last = summed([self._before, without_gauges(self._last)]), b""

    def send(self, number: signal.Signals) -> None:
        """Pass a signal on."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def page(self) -> bytes:
        """Its metrics and those of its predecessors; the last known ones if it does not answer."""
        if self.is_ready:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(_ANSWER_WITHIN_S):
                    self._last = await endpoint.read_at(self.socket)
        return summed([self._before, self._last])


def _sign_of(socket: Path) -> Path:
    return socket.with_suffix(".worked")


def summed(pages: Iterable[bytes], *, alike: str = "") -> bytes:
    """Add up pages in Prometheus' text format, sample by sample.

    Gauges whose names begin with `alike` say the same in every process: the highest counts.
    """
    heads: dict[str, dict[str, None]] = {}
    samples: dict[str, dict[str, float]] = {}
    for page in pages:
        family = ""
        same = set[str]()
        for line in page.decode().splitlines():
            if line.startswith("#"):
                family = line.split()[2]
                heads.setdefault(family, {})[line] = None
                if alike and family.startswith(alike) and line.endswith(" gauge"):
                    same.add(family)
            elif line:
                name, _, value = line.rpartition(" ")
                values = samples.setdefault(family, {})
                before = values.get(name, 0.0)
                values[name] = (
                    max(before, float(value)) if family in same else before + float(value)
                )
    lines: list[str] = []
    for family, head in heads.items():
        lines += head
        lines += [f"{name} {value}" for name, value in samples.get(family, {}).items()]
    return "".join(f"{line}\n" for line in lines).encode()


def without_gauges(page: bytes) -> bytes:
    """What a process that has ended leaves behind: counters do not go back, a gauge is over."""
    kept: list[str] = []
    held_back: list[str] = []
    is_gauge = False
    for line in page.decode().splitlines():
        if line.startswith("# HELP"):
            held_back, is_gauge = [line], False
        elif line.startswith("# TYPE"):
            is_gauge = line.endswith(" gauge")
            kept += [] if is_gauge else [*held_back, line]
        elif not is_gauge:
            kept.append(line)
    return "".join(f"{line}\n" for line in kept).encode()

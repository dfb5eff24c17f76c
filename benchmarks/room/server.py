"""The HTTP API under wrk: each endpoint compared with an empty handler on the same server.

The empty handler is asked just as the endpoint is, with the same headers and the same body, and has
them read and routed like everybody; then it does nothing. Beside it stands what the server reaches
with nothing of ours behind it. Everything runs on one machine over loopback: one server process,
the store, and wrk with one thread. Only the ratios mean something.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Report, Row

SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = 3
CONNECTIONS = 32
LEAST = {"snapshot": 0.90, "status": 0.50, "join": 0.35, "page": 0.60}
"""The share of the empty handler's pace that each must reach."""
BUSY = 0.7
"""The share of what the server can do at which the slowest hundredth is looked at."""
MOST_P99_MS = 20.0

# Written beforehand as far as can be: wrk has the same two cores as everybody it measures.
_ASKS = {
    "status": """
local questions, at = {}, 0
init = function()
  for line in io.lines("FOLDER/tickets") do
    questions[#questions + 1] = wrk.format("GET", nil, { ["Authorization"] = "Bearer " .. line })
  end
end
request = function()
  at = at % #questions + 1
  return questions[at]
end
""",
    "join": """
math.randomseed(os.time())
local at, before, after = math.random(1e9) * 1e6, "", ""
init = function()
  local question = wrk.format("POST", nil,
    { ["Content-Type"] = "application/json", ["Wr-Visitor"] = "visitor-NUMBER" }, "{}")
  before, after = question:match("^(.*)NUMBER(.*)$")
end
request = function()
  at = at + 1
  return before .. string.format("%020.0f", at) .. after
end
""",
}
_ASKS["page"] = """
wrk.headers["Accept"] = "text/html,application/xhtml+xml,*/*;q=0.8"
wrk.headers["Accept-Encoding"] = "gzip, deflate, br"
wrk.headers["Accept-Language"] = "de-AT,de;q=0.9,en;q=0.8"
"""
_PACED = "\ndelay = function() return math.random(0, 2 * {mean_ms}) end\n"


class Measured(NamedTuple):
    """What wrk says."""

    per_second: float
    p99_ms: float
    cost_us: float
    """Processor time of the server for one request, which a busy machine changes least."""


def reports() -> list[Report]:
    """Measure, round after round, so that a busy moment hits everybody."""
    wrk = shutil.which("wrk")
    if wrk is None:
        title = "The waiting room's HTTP API was not measured: wrk is missing (package wrk)"
        return [Report(title=title, unit="", beside="", rows=[])]
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as server:
        asked = _Asked(wrk, Path(folder), server)
        rounds = [
            {(what, where): asked.flat_out(what, where) for what in LEAST for where in Where}
            for _ in range(ROUNDS)
        ]
        best = {each: max(measured[each].per_second for measured in rounds) for each in rounds[0]}
        slowest = {what: asked.paced(what, BUSY * best[what, Where.ROOM]) for what in LEAST}
    costs = {each: min(measured[each].cost_us for measured in rounds) for each in rounds[0]}
    wanted = ", ".join(f"{what} {least:.2f}" for what, least in LEAST.items())

    def rows(measured: dict[tuple[str, Where], float], beside: Where) -> list[Row]:
        return [Row(what, measured[what, Where.ROOM], measured[what, beside]) for what in LEAST]

    return [
        Report(
            title="The waiting room's HTTP API",
            unit="requests/s",
            beside="empty handler",
            rows=rows(best, Where.NOTHING),
            remark=f"One process, {CONNECTIONS} connections, the best of {ROUNDS}; "
            f"at least: {wanted}.",
        ),
        Report(
            title="The same beside a server that answers unread",
            unit="requests/s",
            beside="bare server",
            rows=rows(best, Where.BARE),
        ),
        Report(
            title="What one request costs the server",
            unit="µs of processor",
            beside="empty handler",
            rows=rows(costs, Where.NOTHING),
        ),
        Report(
            title=f"The slowest hundredth at {BUSY:.0%} of that",
            unit="ms",
            beside="at most",
            rows=[
                Row(f"{what} at {measured.per_second:,.0f}/s", measured.p99_ms, MOST_P99_MS)
                for what, measured in slowest.items()
            ],
        ),
    ]


class Where(Enum):
    """Who is asked."""

    ROOM = auto()
    NOTHING = auto()
    """An empty handler of the same application."""
    BARE = auto()
    """The server without the application."""


class Server(NamedTuple):
    """The process that is asked."""

    process: int
    port: int
    bare_port: int

    def url(self, what: str, where: Where) -> str:
        """Where to ask a question."""
        port = self.bare_port if where is Where.BARE else self.port
        if what == "page" and where is Where.ROOM:
            return f"http://127.0.0.1:{port}/wait/shop"
        named = {"snapshot": "snapshot", "status": "status", "join": "enqueue", "page": ""}[what]
        last = named if where is Where.ROOM else "nothing"
        return f"http://127.0.0.1:{port}/api/v1/queues/shop/{last}"


class _Asked:
    def __init__(self, wrk: str, folder: Path, server: Server) -> None:
        self._wrk = wrk
        self._folder = folder
        self._server = server

    def flat_out(self, what: str, where: Where) -> Measured:
        """As often as the server answers."""
        return self._ask(what, where, _ASKS.get(what, ""), CONNECTIONS)

    def paced(self, what: str, per_second: float) -> Measured:
        """About so often; wrk only takes how long a connection rests between questions."""
        connections = 4 * CONNECTIONS
        mean_ms = 1000 * connections / per_second
        measured = Measured(0.0, 0.0, 0.0)
        for _ in range(3):
            script = _ASKS.get(what, "") + _PACED.format(mean_ms=max(1, round(mean_ms)))
            measured = self._ask(what, Where.ROOM, script, connections)
            took_ms = 1000 * connections / measured.per_second
            if abs(took_ms * per_second / 1000 / connections - 1) < 0.05:
                break
            mean_ms = max(1.0, mean_ms + 1000 * connections / per_second - took_ms)
        return measured

    def _ask(self, what: str, where: Where, script: str, connections: int) -> Measured:
        command = [self._wrk, "-t1", f"-c{connections}", f"-d{SECONDS}", "--latency"]
        if script:
            file = self._folder / f"{what}.lua"
            file.write_text(script.replace("FOLDER", str(self._folder)))
            command += ["-s", str(file)]
        command.append(self._server.url(what, where))
        before = _processor_s(self._server.process)
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout
        if wrong := re.search(r"Non-2xx or 3xx responses: (\d+)", printed):
            raise AssertionError(f"{what}: {wrong.group(0)}")
        used = _processor_s(self._server.process) - before
        many = re.search(r"(\d+) requests in", printed)
        pace = re.search(r"Requests/sec:\s+([\d.]+)", printed)
        slowest = re.search(r"99%\s+([\d.]+)(us|ms|s)", printed)
        if many is None or pace is None or slowest is None:
            raise AssertionError(printed)
        unit_ms = {"us": 0.001, "ms": 1.0, "s": 1000.0}[slowest.group(2)]
        cost_us = used * 1e6 / int(many.group(1))
        return Measured(float(pace.group(1)), float(slowest.group(1)) * unit_ms, cost_us)


def _processor_s(process: int) -> float:
    """Seconds that a process has had the processor, by what Linux reports."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _server(folder: Path) -> Generator[Server]:
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        port, bare_port = (free.getsockname()[1] for free in (one, other))
    command = [sys.executable, "-m", "benchmarks.room.site", f"{port}", f"{bare_port}", str(folder)]
    with subprocess.Popen(command) as process:
        try:
            until = time.monotonic() + 60
            while not (folder / "ready").exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise AssertionError("the server does not start")
                time.sleep(0.05)
            yield Server(process.pid, port, bare_port)
        finally:
            process.terminate()

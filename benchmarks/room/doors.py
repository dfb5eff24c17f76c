"""The doors under wrk: what each endpoint reaches beside an empty handler on the same server.

Everything runs on one machine over loopback: one server process, the store, and wrk with one
thread. Only the ratios mean something.
"""

import asyncio
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import Report, Row
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.interfaces.api.app import App
from waystation.interfaces.api.desk import Desk, DeskOptions
from waystation.interfaces.api.exchange import Receive, Scope, Send
from waystation.interfaces.api.rooms import Rooms
from waystation.interfaces.api.server import serving
from waystation.queues.waitingroom.options import RoomOptions
from waystation.queues.waitingroom.tokens import Keyring
from waystation.queues.waitingroom.visitor import Lane, Newcomer

SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = 3
PEOPLE = 2000
CONNECTIONS = 32

_TICKETS = """
local tickets = {}
for line in io.lines("%s") do tickets[#tickets + 1] = line end
local at = 0
request = function()
  at = at %% #tickets + 1
  return wrk.format("GET", nil, { ["Authorization"] = "Bearer " .. tickets[at] })
end
"""
_JOIN = """
math.randomseed(os.time())
local at, tag = 0, tostring(math.random(1e9))
request = function()
  at = at + 1
  return wrk.format("POST", nil, { ["Content-Type"] = "application/json",
    ["Wr-Visitor"] = "visitor-" .. tag .. "-" .. string.format("%020d", at) }, "{}")
end
"""


def reports() -> list[Report]:
    """Measure, round after round, so that a busy moment hits everybody."""
    wrk = shutil.which("wrk")
    if wrk is None:
        return []
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as port:
        for name, text in (("status", _TICKETS % f"{folder}/tickets"), ("join", _JOIN)):
            Path(folder, f"{name}.lua").write_text(text)
        base = f"http://127.0.0.1:{port}"
        queue = f"{base}/api/v1/queues/shop"
        asked = {
            "nothing": (f"{base}/empty", None),
            "snapshot": (f"{queue}/snapshot", None),
            "status": (f"{queue}/status", "status"),
            "join": (f"{queue}/enqueue", "join"),
            "verify": (f"{base}/v1/verify?queue=shop", None),
        }
        best = dict.fromkeys(asked, 0.0)
        for _ in range(ROUNDS):
            for what, (url, script) in asked.items():
                got, _ = _wrk(wrk, url, script, folder)
                best[what] = max(best[what], got)
    nothing = best.pop("nothing")
    return [
        Report(
            title="The waiting room's doors",
            unit="requests/s",
            beside="empty handler",
            rows=[Row(what, got, nothing) for what, got in best.items()],
            remark=f"one process, {CONNECTIONS} connections, same machine, the best of {ROUNDS}",
        )
    ]


def _wrk(wrk: str, url: str, script: str | None, folder: str) -> tuple[float, str]:
    command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}", "--latency", url]
    if script:
        command += ["-s", f"{folder}/{script}.lua"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", told)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", told)
    if wrong and "verify" not in url:
        raise AssertionError(f"{url}: {wrong.group(0)}")
    return float(found.group(1)) if found else 0.0, told


@contextmanager
def _server(folder: Path) -> Generator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.room.doors", str(port), str(folder)]
    with subprocess.Popen(command) as process:
        try:
            until = time.monotonic() + 60
            while not (folder / "ready").exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise AssertionError("the server does not start")
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()


async def _serve(port: int, folder: Path) -> None:
    with embedded.ephemeral() as server:
        async with await connect(server.url) as store:
            rooms = Rooms(store)
            keyring = Keyring.generate(random.SystemRandom())
            desk = Desk(rooms, keyring, DeskOptions(poll_floor_ms=0))
            app = App(desk)
            room = rooms.of("{shop}")
            await room.open(RoomOptions(admission_rate=1, newcomers_per_minute=0, max_queue_size=0))
            tickets = list[str]()
            for number in range(PEOPLE):
                entry = await room.join(Newcomer(key=f"{number}", secret="s"))
                place = getattr(entry, "place")  # noqa: B009
                tickets.append(desk.ticket(room, place, Lane.NORMAL, await desk.pulse(room)))
            (folder / "tickets").write_text("\n".join(tickets))

            async def site(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http" and scope["path"] == "/empty":
                    head = [(b"content-length", b"2")]
                    await send({"type": "http.response.start", "status": 200, "headers": head})
                    await send({"type": "http.response.body", "body": b"{}"})
                    return
                await app(scope, receive, send)

            async with serving(site, host="127.0.0.1", port=port):
                (folder / "ready").write_text(json.dumps(port))
                await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2])))

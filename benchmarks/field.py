"""Our worker beside the others that empty a queue in Redis, each in its quickest way.

What is compared is jobs per second of processor time, of the worker and the store together:
unlike jobs per second it hardly depends on who else uses the machine. A run that lost a job never
ends, and one that ran a job twice is void. `build/benchmarks` gets the figures, and a picture.
"""

import asyncio
import statistics
from pathlib import Path
from typing import Any

import msgspec
from redis.asyncio import Redis

from benchmarks.chart import bars
from benchmarks.peers.run import PeerFailed, measure, measure_ours
from benchmarks.report import Report, Row, machine
from benchmarks.turns import TIMES
from waystation.core.store import embedded

JOBS = 3_000
OUR_JOBS = 20_000
"""More where it goes fast, or the clocks would be read before they have moved."""
LONGEST_S = 600.0
AT_A_TIME = {"celery": 1, "rq": 1, "huey": 1, "dramatiq": 8, "bullmq": 40, "docket": 50}
"""Where it is not 200: no threads, Dramatiq's own number, what suits the port best, and what
Docket's connections suffice for."""
PEERS = ("celery", "rq", "dramatiq", "huey", "arq", "saq", "taskiq", "streaq", "docket", "bullmq")
NAMES = {"bullmq": "BullMQ's Python port", "node": "BullMQ in Node"}
FOLDER = Path("build/benchmarks")


class Figures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The median run of one worker."""

    name: str
    jobs: int
    per_second: float
    cpu_micros_per_job: float
    store_micros_per_job: float

    @property
    def per_cpu_second(self) -> float:
        """Jobs for a second of processor time, the store's included."""
        return 1e6 / (self.cpu_micros_per_job + self.store_micros_per_job)


def run() -> Report:
    """Everybody in turn on one server."""
    with embedded.ephemeral() as server:
        ours, *others = asyncio.run(_rounds(server.url))
    _write([ours, *others])
    return Report(
        title="Jobs that do nothing, for a second of processor time: one worker and the store",
        unit="ours, jobs",
        beside="theirs",
        rows=[
            Row(f"beside {each.name}", ours.per_cpu_second, each.per_cpu_second) for each in others
        ],
        remark="each from its first job to its last, keeping no results where it can be set so. "
        "Ours settles every job under a lease and keeps its result.",
    )


async def _rounds(url: str) -> list[Figures]:
    names = ["waystation", "node", *PEERS]
    runs_of: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(TIMES):
        for name in names:
            async with asyncio.timeout(LONGEST_S):
                runs_of[name].append(await _one(url, name))
    return [_median(name, runs) for name, runs in runs_of.items()]


async def _one(url: str, name: str) -> dict[str, Any]:
    async with Redis.from_url(url) as client:
        await client.flushall()
    match name:
        case "waystation":
            figures = await measure_ours("drain", url, jobs=OUR_JOBS)
        case "node":
            figures = await measure("node_drain", url, jobs=OUR_JOBS, concurrency=200)
        case _:
            at_a_time = AT_A_TIME.get(name, 200)
            figures = await measure(f"drain_{name}", url, jobs=JOBS, concurrency=at_a_time)
    if figures["twice"]:
        raise PeerFailed(f"{name} has run {figures['twice']} jobs twice, so the run is void")
    return figures


def _median(name: str, runs: list[dict[str, Any]]) -> Figures:
    def middle(key: str) -> float:
        return round(statistics.median(run[key] for run in runs), 1)

    version = runs[0].get("version", "")
    return Figures(
        name=f"{NAMES.get(name, name)} {version}".strip(),
        jobs=OUR_JOBS if name in ("waystation", "node") else JOBS,
        per_second=middle("perSecond"),
        cpu_micros_per_job=middle("cpuMicrosPerJob"),
        store_micros_per_job=middle("storeMicrosPerJob"),
    )


def _write(figures: list[Figures]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    page = {"machine": machine(), "runs": TIMES, "figures": figures}
    (FOLDER / "field.json").write_bytes(msgspec.json.format(msgspec.json.encode(page)))
    ordered = sorted(figures, key=lambda each: -each.per_cpu_second)
    (FOLDER / "field.svg").write_text(
        bars(
            "Jobs for a second of processor time, worker and store together",
            [(each.name, each.per_cpu_second) for each in ordered],
        )
    )

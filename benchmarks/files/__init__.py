"""Files: a tree of a hundred thousand put in line and worked off, beside BullMQ's worker."""

import asyncio
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.report import Report, Row
from benchmarks.turns import interleaved
from waystation.core.store import embedded

FILES = 100_000
FEW = 10_000
JOBS = 20_000
WATCHED = 30_000
"""Files in the directory that is watched."""
PROJECT = Path(__file__).parents[2]


def run() -> list[Report]:
    """Everything in one interleaved run on one server."""
    with embedded.ephemeral() as server, tempfile.TemporaryDirectory() as root:
        many, few = Path(root) / "many", Path(root) / "few"
        _plant(many, FILES)
        _plant(few, FEW)
        return asyncio.run(_run(server.url, many, few))


async def _run(url: str, many: Path, few: Path) -> list[Report]:
    return [*await _scan(url, many, few), *await _watch(url), await _drain(url), await _growth(url)]


async def _scan(url: str, many: Path, few: Path) -> list[Report]:
    scans = [await _task("scan", url, root=str(many))]
    small = [await _task("scan", url, root=str(few))]

    def median(rounds: list[dict[str, Any]], name: str) -> float:
        return statistics.median(each[name] for each in rounds)

    speed = Report(
        title=f"A tree of {FILES:,} files",
        unit="files/s",
        beside="walking alone",
        rows=[
            Row("found and put in line", median(scans, "newPerSecond"), median(scans, "walked")),
            Row("found and known", median(scans, "knownPerSecond"), median(scans, "walked")),
        ],
    )
    memory = Report(
        title="Peak memory of the process that scans",
        unit=f"MB, {FILES:,} files",
        beside=f"MB, {FEW:,} files",
        rows=[Row("found and put in line", median(scans, "peakMb"), median(small, "peakMb"))],
        remark="aim: 1, whatever the size of the tree",
    )
    return [speed, memory]


async def _watch(url: str) -> list[Report]:
    with tempfile.TemporaryDirectory() as root:
        large, small = Path(root) / "large", Path(root) / "small"
        _plant(large, WATCHED, folder=WATCHED)
        _plant(small, 100)
        beside_many, beside_few, rescan, asked = await interleaved(
            lambda: _cpu_ms("arrive", url, large),
            lambda: _cpu_ms("arrive", url, small),
            lambda: _cpu_ms("rescan", url, large),
            lambda: _cpu_ms("ask", url, large),
        )
    arrival = Report(
        title="Watching: processor time for one new file in a directory",
        unit=f"ms, beside {WATCHED:,}",
        beside="ms, beside 100",
        rows=[Row("seen, asked for and put in line", beside_many, beside_few)],
        remark="aim: at most 2",
    )
    again = Report(
        title=f"Watching: processor time for a pass over {WATCHED:,} unchanged files",
        unit="ms, confirmed before",
        beside="ms, asking the store for each",
        rows=[Row("looked at", rescan, asked)],
        remark="less is better",
    )
    return [arrival, again]


async def _drain(url: str) -> Report:
    fast, theirs, one, their_one = await interleaved(
        lambda: _rate("drain", url, concurrency=200),
        lambda: _rate("bullmq", url, concurrency=200),
        lambda: _rate("drain", url, concurrency=1, jobs=JOBS // 4),
        lambda: _rate("bullmq", url, concurrency=1, jobs=JOBS // 4),
    )
    return Report(
        title=f"Working off {JOBS:,} jobs that do nothing, one worker process",
        unit="files, jobs/s",
        beside="bullmq",
        rows=[Row("200 at a time", fast, theirs), Row("one at a time", one, their_one)],
        remark="aim: at least 1",
    )


async def _growth(url: str) -> Report:
    # Both fill the stream of events to its cap, so that only the backlog differs.
    large, small = await interleaved(
        lambda: _rate("fetch", url, jobs=100_000), lambda: _rate("fetch", url, jobs=20_000)
    )
    return Report(
        title="Fetching and completing the oldest of a backlog",
        unit="server µs a job, 100,000 wait",
        beside="20,000 wait",
        rows=[Row("in batches of 100", large, small)],
        remark="aim: 1",
    )


async def _rate(name: str, url: str, **options: int) -> float:
    return (await _task(name, url, **{"jobs": JOBS, **options}))["result"]


async def _task(name: str, url: str, **options: Any) -> dict[str, Any]:
    """One measurement in a process of its own."""
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.files.tasks", name, "--url", url, *words,
        cwd=PROJECT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the task {name} ended with {process.returncode}")
    return msgspec.json.decode(out)


async def _cpu_ms(name: str, url: str, root: Path) -> float:
    return (await _task(name, url, root=str(root)))["result"]


def _plant(root: Path, count: int, folder: int = 500) -> None:
    for number in range(count):
        if number % folder == 0:
            (root / f"{number:06}").mkdir(parents=True)
        (root / f"{number - number % folder:06}" / f"{number}.txt").touch()

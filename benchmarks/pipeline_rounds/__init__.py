"""The price of rounds over a thousand new events, in processor time of all processes together.

Beside a session of Spark that only counts: a first round in a new process, and rounds of a process
that keeps running, on histories of different sizes. All are measured in turns.
ROUND_EVENTS=100000,10000000 picks the sizes, ROUND_TIMES=3 how often each is measured.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from redis import Redis

from benchmarks.pipeline.tree import Tree
from benchmarks.pipeline_rounds import past
from benchmarks.report import Report, Row
from waystation.core.store import embedded

SIZES = [int(size) for size in os.environ.get("ROUND_EVENTS", "100000").split(",") if size]
TIMES = int(os.environ.get("ROUND_TIMES", "3"))
NEW = 1_000
IN_A_ROW = 2
DATA = '{"tenant":"acme","order":{"id":7},"note":"' + "lorem ipsum " * 20 + '"}'
CHILD = (sys.executable, "-m", "benchmarks.pipeline_rounds.child")


def run() -> list[Report]:
    """The price of a cold round and of warm ones, beside a session that only counts."""
    spent: dict[str, list[float]] = {}
    with ExitStack() as stack:
        warm = [stack.enter_context(_rounds(size)) for size in SIZES]
        for turn in range(TIMES):
            for name in ("bare", "ours"):
                spent.setdefault(name, []).append(_session_s(name))
            spent.setdefault("cold", []).append(_cold_s(turn))
            for each in warm:
                # The others have taken more than a minute, after which Spark ends idle Pythons.
                name = f"{each.name}, after a pause" if turn else f"{each.name}, first round"
                spent.setdefault(name, []).append(each.next())
                for _ in range(IN_A_ROW):
                    # Those after the first round still warm up.
                    name = each.name if turn else f"{each.name}, next rounds"
                    spent.setdefault(name, []).append(each.next())
        said = {each.name: each.counts() for each in warm}
    bare = statistics.median(spent["bare"])
    rows = [Row(_title(name), statistics.median(some), bare) for name, some in spent.items()]
    ranges = (f"{name}: {min(some):.1f} to {max(some):.1f}" for name, some in spent.items())
    return [
        Report(
            title=f"A round over {NEW:,} new events",
            unit="CPU s of all processes, median",
            beside="session and count",
            rows=rows,
            remark="; ".join([*ranges, *(f"{name}: {text}" for name, text in said.items())])
            + "; aim: cold within 2.0; warm at most 10 s",
        )
    ]


def _title(name: str) -> str:
    known = {
        "bare": "a session of PySpark, and a count",
        "ours": "a session of the pipeline, and a count",
        "cold": "run --once in a new process, on nothing",
    }
    return known.get(name, name)


def _session_s(name: str) -> float:
    with Tree((*CHILD, name), {}) as tree:
        return tree.wait()


def _cold_s(turn: int) -> float:
    """Processor time of `waystation pipeline run --once` over the first events of a store."""
    program = str(Path(sys.executable).parent / "waystation")
    with tempfile.TemporaryDirectory() as root, embedded.ephemeral() as server:
        with Redis.from_url(server.url, protocol=2) as store:
            write_round(store, turn)
        env = {"WAYSTATION_STORE__URL": server.url}
        with Tree((program, "pipeline", "run", "--once", "--history", root), env) as tree:
            return tree.wait()


class Warm:
    """A process that runs one round after the other on a history."""

    def __init__(self, tree: Tree, store: Any, name: str) -> None:
        self.name = name
        self._tree = tree
        self._store = store
        self._numbers = count()

    def next(self) -> float:
        """Run a round over new events; its processor time."""
        before = self._tree.cpu_s()
        self._round("go")
        return self._tree.cpu_s() - before

    def counts(self) -> str:
        """Run one more round; what Spark did in it."""
        return self._round("count")["counts"]

    def _round(self, word: str) -> dict[str, Any]:
        write_round(self._store, next(self._numbers))
        result: dict[str, Any] = msgspec.json.decode(self._tree.ask(word))
        assert result["events"] == NEW, result
        return result


@contextmanager
def _rounds(size: int) -> Generator[Warm]:
    with (
        tempfile.TemporaryDirectory() as root,
        embedded.ephemeral() as server,
        Redis.from_url(server.url, protocol=2) as store,
        Tree((*CHILD, "rounds", root, server.url, str(size)), {}) as tree,
    ):
        built = int(tree.ask())
        yield Warm(tree, store, f"on a history of {built:,} events")


def write_round(store: Any, number: int) -> None:
    """Write the events of jobs that are added and done; every fifth is tried twice."""
    pipe = store.pipeline(transaction=False)
    left, job = NEW, 0
    while left:
        queue, job_id = f"q{job % past.QUEUES}", f"n{number}-{job}"
        story: list[dict[str, str]] = [
            {"event": "added", "name": "charge"},
            {"event": "waiting"},
            {"event": "active", "prev": "waiting"},
        ]
        if job % 5 == 0:
            why = f"TimeoutError: shop a gave no answer to {job}"
            story += [
                {"event": "delayed", "delay": "100"},
                {"event": "retry", "attemptsMade": "1", "failedReason": why},
                {"event": "waiting", "prev": "delayed"},
                {"event": "active", "prev": "waiting"},
            ]
        story += [{"event": "completed", "returnvalue": "1", "prev": "active"}]
        pipe.hset(f"bull:{queue}:{job_id}", mapping={"name": "charge", "data": DATA, "opts": "{}"})
        # The last one may be cut off, and stays open.
        for each in story[:left]:
            pipe.xadd(f"bull:{queue}:events", {**each, "jobId": job_id})
        left -= min(left, len(story))
        if not left:
            pipe.lpush(f"bull:{queue}:wait", job_id)
        job += 1
    pipe.execute()

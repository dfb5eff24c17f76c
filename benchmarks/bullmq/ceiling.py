"""How fast the store itself can go: our own scripts from a client that does nothing but send.

The ids are known because a fresh queue numbers its jobs from one, and the tokens because the
client chooses them.
"""

import time

from benchmarks.packed import Wire, packed
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys

BATCH = 100
ADD_BATCH = 500


def drain_rate(url: str, jobs: int) -> float:
    """Jobs a second through the settling and claiming script, a hundred at a time."""
    keys = QueueKeys(f"ceiling-{time.time_ns()}")
    with Wire(url, scripts.add, scripts.settle) as wire:
        wire.send_all(_adding(keys, jobs))
        return jobs / wire.send_all(_draining(keys, jobs))


def add_rate(url: str, jobs: int) -> float:
    """Jobs a second through the adding script, five hundred at a time."""
    keys = QueueKeys(f"ceiling-{time.time_ns()}")
    with Wire(url, scripts.add, scripts.settle) as wire:
        return jobs / wire.send_all(_adding(keys, jobs))


def _adding(keys: QueueKeys, jobs: int) -> list[bytes]:
    commands: list[bytes] = []
    for first in range(0, jobs, ADD_BATCH):
        rows: list[str] = []
        for n in range(first, min(first + ADD_BATCH, jobs)):
            rows += ["job", f'{{"n":{n}}}', '{"attempts":1}', ""]
        commands.append(packed(scripts.add, keys, now="", jobs=rows))
    return commands


def _draining(keys: QueueKeys, jobs: int) -> list[bytes]:
    commands: list[bytes] = []
    outcomes: list[str] = []
    for call, first in enumerate([*range(0, jobs, BATCH), jobs]):
        commands.append(
            packed(
                scripts.settle,
                keys,
                now="",
                token=f"token:{call}",
                lease_ms=30_000,
                want=BATCH if first < jobs else 0,
                worker="ceiling-1-00000000",
                max="",
                duration="",
                metrics="",
                outcomes=outcomes,
            )
        )
        outcomes = []
        for id in range(first + 1, min(first + BATCH, jobs) + 1):
            outcomes += ["completed", str(id), f"token:{call}", "null", ""]
    return commands

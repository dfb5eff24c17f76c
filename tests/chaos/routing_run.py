"""Workers of the routing line killed at random while they empty it, and the account afterwards.

The suite plays it small; `python -m tests.chaos.routing_run 8 20000` plays it large.
"""

import asyncio
import itertools
import random
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any, NamedTuple

from redis.asyncio import Redis

from tests.chaos.history import History, Verdict
from tests.support.patience import LIMIT_S, limit
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.routing import BackoffRule, JobOptions, Limit, NewJob, Queue, Retry, Target

ROOT = Path(__file__).parents[2]
KINDS = ("cpu", "gpu")
RETRY = Retry(attempts=10, backoff=BackoffRule(type="fixed", delay=0.02))
_NAMES = itertools.count(1)


class Account(NamedTuple):
    """What a run came to."""

    verdict: Verdict
    ended: int
    kills: int
    left: list[str]
    """Keys that have no business in a line where all work is done."""


async def start(url: str, kind: str, max_stalls: int = 1000) -> Process:
    """One more worker."""
    program = (sys.executable, "-m", "tests.chaos.routing_worker")
    args = (url, f"w{next(_NAMES)}", kind, str(max_stalls))
    return await asyncio.create_subprocess_exec(*program, *args, cwd=ROOT)


def jobs(count: int) -> list[NewJob]:
    """Some of each kind, some that fail once, some under a limit, some urgent."""
    made: list[NewJob] = []
    for number in range(count):
        kind = (*KINDS, None)[number % 3]
        options = JobOptions(
            job_id=f"job-{number}",
            target=Target(capabilities=(kind,)) if kind else Target(),
            retry=RETRY,
            priority=9 if number % 7 == 0 else 5,
        )
        type = "limited" if number % 4 == 0 else "plain"
        made.append(NewJob(type, {"moody": number % 10 == 0}, options))
    return made


async def run(url: str, *, workers: int, count: int, kills: int) -> Account:
    """Let the workers empty the line while some of them are killed, and count."""
    history = History()
    async with await connect(url) as store, Queue(store) as queue:
        redis: Redis = store.redis
        # The judge reads the whole stream.
        await redis.set("bridge:events:cap", 100 * count)
        await queue.limits.set("limited", Limit(max_concurrent=3 * workers))
        for id in [job.id for job in await queue.add_many(jobs(count))]:
            history.acknowledge(id)
        fleet = [await start(url, KINDS[number % 2]) for number in range(workers)]
        killed = 0
        try:
            async with asyncio.timeout(limit(60 + count / 50)):
                while await _open(redis):
                    await asyncio.sleep(random.uniform(0.2, 0.6))
                    if killed < kills and await redis.scard("bridge:jobs:active"):
                        victim = random.randrange(workers)
                        fleet[victim].kill()
                        await fleet[victim].wait()
                        fleet[victim] = await start(url, KINDS[victim % 2])
                        killed += 1
        finally:
            await _end(fleet)
        history.end(await _ends(redis))
        left = await _strange(redis)
        return Account(history.verdict(), count, killed, left)


async def _open(redis: Redis) -> int:
    keys = ("waiting", "active", "delayed", "claims", "leases")
    found: Any = await redis.exists(*(f"bridge:jobs:{key}" for key in keys))
    return found


async def _end(fleet: list[Process]) -> None:
    for process in fleet:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
    for process in fleet:
        try:
            await asyncio.wait_for(process.wait(), LIMIT_S)
        except TimeoutError:
            process.kill()


async def _ends(redis: Redis) -> list[str]:
    entries: Any = await redis.xrange("bridge:events:stream")
    return [
        entry[b"subject"].decode()
        for _, entry in entries
        if entry[b"event"] in (b"completed", b"dead")
    ]


async def _strange(redis: Redis) -> list[str]:
    """What is left beside the results that are kept for a day and what a line always has."""
    keys: Any = await redis.keys("*")
    usual = ("bridge:jobs:result:", "bridge:jobs:status:", "bridge:index:serves:")
    always = {
        "bridge:events:stream",
        "bridge:events:cap",
        "bridge:jobs:wake",
        "bridge:index:serial",
        "bridge:index:signatures",
        "bridge:ratelimit:config",
        "bridge:scheduler:terms",
    }
    names = [key.decode() for key in keys]
    left = [name for name in names if not name.startswith(usual) and name not in always]
    # A killed worker stays in the registry, and the leader, until it has been silent for long.
    silent = ("bridge:workers:", "bridge:scheduler:lock")
    return sorted(name for name in left if not name.startswith(silent))


async def _main(workers: int, count: int) -> None:
    with embedded.ephemeral() as server:
        account = await run(server.url, workers=workers, count=count, kills=count // 400)
    clean = account.verdict.is_clean and not account.left
    print(f"{account.ended:,} jobs, {workers} workers, {account.kills} killed: ", end="")
    print("every job ended once, nothing left" if clean else f"{account}")
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2])))

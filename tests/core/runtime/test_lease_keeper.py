"""The thread on which leases are renewed."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from tests.support.patience import LIMIT_S
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.lease_keeper import LeaseKeeper
from waystation.testing.memory import MemorySource


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "lease-keeper"]


async def keeping(source: MemorySource, lost: list[Any]) -> LeaseKeeper[Any]:
    held = (await source.settle([], claim=1)).claims
    return LeaseKeeper(source, held=lambda: held, lost=lost.extend, every=0.01)


async def until(condition: Any) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_all_keepers_of_a_process_share_one_thread_that_ends_with_the_last() -> None:
    renewed: set[int] = set()

    class Source(MemorySource):
        async def _extend(self, claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
            renewed.add(id(self))
            return await super()._extend(claims)

    sources = [Source() for _ in range(5)]
    async with AsyncExitStack() as stack:
        for source in sources:
            source.add("job")
            await stack.enter_async_context(await keeping(source, []))
        assert len(threads()) == 1
        await until(lambda: len(renewed) == 5)

    await until(lambda: not threads())
    sources[0].add("job")
    async with await keeping(sources[0], []):
        assert len(threads()) == 1


FORKED = """
import asyncio, os, threading
from waystation.core.runtime.lease_keeper import LeaseKeeper
from waystation.testing.memory import MemorySource

async def keep():
    renewed = threading.Event()
    class Source(MemorySource):
        async def _extend(self, claims):
            renewed.set()
            return ()
    source = Source()
    source.add("job")
    held = (await source.settle([], claim=1)).claims
    keeper = LeaseKeeper(source, held=lambda: held, lost=print, every=0.01)
    await keeper.__aenter__()
    await asyncio.to_thread(renewed.wait, 60)

asyncio.run(keep())
child = os.fork()
if child == 0:
    asyncio.run(keep())
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""


async def test_a_forked_process_has_a_thread_of_its_own() -> None:
    program = [sys.executable, "-W", "ignore", "-c", FORKED]
    ended = await asyncio.to_thread(
        subprocess.run, program, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )

    assert (ended.stdout, ended.stderr) == ("7\n", "")

"""The thread on which leases are renewed."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.patience import LIMIT_S, until
from waystation.core.errors import StoreUnreachable
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.lease_keeper import LeaseKeeper
from waystation.testing.memory import MemorySource


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "lease-keeper"]


async def keeping(source: MemorySource, lost: list[Any]) -> LeaseKeeper[Any]:
    held = (await source.settle([], claim=1)).claims
    return LeaseKeeper(source, held=lambda: held, lost=lost.extend, lease=30, every=0.01)


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
    keeper = LeaseKeeper(source, held=lambda: held, lost=print, lease=30, every=0.01)
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


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop on which time passes by itself as soon as everybody waits."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        select = self._selector.select  # type: ignore[attr-defined] # pyright: ignore

        def skip(timeout: float | None = None) -> Any:
            self._now += timeout or 0.0
            return select(0)  # pyright: ignore[reportUnknownVariableType]

        self._selector.select = skip  # type: ignore[attr-defined] # pyright: ignore

    def time(self) -> float:
        return self._now


class Dropping(MemorySource):
    """Drops some answers: each comes after `after` seconds, as an error, or never."""

    def __init__(self, dropped: Sequence[int], after: float | None) -> None:
        super().__init__()
        self._dropped = dropped
        self._after = after
        self._calls = 0
        self.renewed = [0.0]
        self.enough = asyncio.Event()

    async def _extend(self, claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
        self._calls += 1
        if self._calls in self._dropped:
            await asyncio.sleep(3600 if self._after is None else self._after)
            raise StoreUnreachable("no answer")
        self.renewed.append(asyncio.get_running_loop().time())
        if self._calls > 12:
            self.enough.set()
        return ()


async def renewals(source: Dropping, lease: float, every: float) -> list[float]:
    source.add("job")
    held = (await source.settle([], claim=1)).claims
    keeper = LeaseKeeper(source, held=lambda: held, lost=print, lease=lease, every=every)
    keeper._home, keeper._ended = asyncio.get_running_loop(), source.enough  # pyright: ignore
    await keeper._keep()  # pyright: ignore[reportPrivateUsage]
    return source.renewed


@given(
    lease=st.floats(0.1, 3600),
    share=st.floats(0.01, 0.95),
    first=st.integers(1, 10),
    many=st.integers(1, 3),
    after=st.none() | st.floats(0, 120),
)
def test_no_lease_is_lost_by_answers_that_get_lost(
    lease: float, share: float, first: int, many: int, after: float | None
) -> None:
    source = Dropping(range(first, first + many), after)
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        renewed = runner.run(renewals(source, lease, share * lease))

    assert all(later - before < lease for before, later in pairwise(renewed)), renewed

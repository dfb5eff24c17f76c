"""Many workers in one process, and what can be seen of them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.routing.test_worker import until
from waystation.core.store import leader
from waystation.core.store.connection import Store
from waystation.routing import Job, SchedulerOptions, Worker, WorkerOptions
from waystation.routing.redis import scripts

QUICK = SchedulerOptions(tick=0.05, recover=0.1, mend=0.2, term=60)
PATIENT = WorkerOptions(poll=3_600)
WATCHED = (
    (scripts, "settle"),
    (scripts, "look"),
    (scripts, "fits"),
    (scripts, "beat"),
    (leader, "take_lead"),
    (scripts, "process_delayed"),
)


class Seen:
    """What the workers of this process have asked the store, and which of them wait."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.idle: set[Any] = set()

    def of(self, name: str) -> list[dict[str, Any]]:
        return [args for called, args in self.calls if called == name]

    def askers(self) -> set[str]:
        """Who has asked for jobs."""
        return {args["worker"] for args in self.of("settle")}

    async def until_idle(self, count: int) -> None:
        async def all_wait() -> bool:
            return len(self.idle) >= count

        await until(all_wait)


async def nothing(job: Job) -> None: ...


@asynccontextmanager
async def mesh(
    where: str | Store, count: int, handler: Callable[[Job], Any] = nothing, **options: Any
) -> AsyncGenerator[list[Worker]]:
    """So many workers of one type, each with a name of its own."""
    workers = [
        Worker({"t": handler}, where, server=f"w{number}", **options) for number in range(count)
    ]
    async with AsyncExitStack() as stack:
        await asyncio.gather(*map(stack.enter_async_context, workers))
        yield workers

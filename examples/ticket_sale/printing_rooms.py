"""The printing rooms: each ticket asks for its printer, and one kind is missing at first."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from examples.ticket_sale.account import Account
from examples.ticket_sale.stage import Show, Stage
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect
from waystation.routing import (
    Job,
    JobOptions,
    NewJob,
    Queue,
    SchedulerOptions,
    Target,
    Worker,
    WorkerOptions,
)

TITLE: str = "The printing rooms"
PART: str = "waystation.routing: jobs that ask for a kind of worker"

TICKETS = 6_000
NEEDS = ("paper", "foil", "braille")
OPTIONS = WorkerOptions(concurrency=40, lease=5.0)
UPKEEP = SchedulerOptions(tick=0.2, recover=0.5)

Print = Callable[[Job], Coroutine[Any, Any, str]]


class Rooms:
    """Prints tickets, and notes in which room."""

    def __init__(self) -> None:
        self.printed: Counter[int] = Counter()
        self.by_room: Counter[str] = Counter()

    def room(self, name: str) -> Print:
        """What the printer of one room does."""

        async def print_ticket(job: Job) -> str:
            await asyncio.sleep(random.uniform(0, 0.01))
            self.printed[job.data["ticket"]] += 1
            self.by_room[name] += 1
            return f"printed in {name}"

        return print_ticket


async def run(stage: Stage) -> Account:
    """Print every ticket where it can be printed."""
    rooms = Rooms()
    with embedded.ephemeral() as server:
        async with await connect(server.url) as store:
            queue = Queue(store)
            await queue.add_many(_tickets())
            stage.say(
                f"{TICKETS:,} tickets ask for paper, foil or braille; "
                "the ones in braille came first and stand in front of all others."
            )
            with stage.progress("tickets printed", TICKETS) as show:
                async with (
                    _room(store, rooms, "cellar", "paper"),
                    _room(store, rooms, "attic", "foil"),
                ):
                    await _until(rooms, TICKETS - TICKETS // 3, show)
                    (row,) = [each for each in await queue.coverage() if not each.served]
                    stage.say(
                        f"{row.waiting:,} tickets wait for what nobody has "
                        f"({', '.join(row.missing)}), and hold nobody up."
                    )
                    stage.say("A room with a braille printer opens.")
                    async with _room(store, rooms, "annex", "braille"):
                        await _until(rooms, TICKETS, show)
            counts = await queue.counts()
    return Account(
        title=TITLE,
        what="tickets",
        came_in=TICKETS,
        ends={
            "were printed in the room that could": len(rooms.printed),
            "are still in the queue": counts["waiting"],
        },
        twice=sum(count > 1 for count in rooms.printed.values()),
        remarks=(
            " ".join(f"The {name} printed {count:,}." for name, count in rooms.by_room.items()),
        ),
    )


def _tickets() -> list[NewJob]:
    ordered = sorted(range(TICKETS), key=lambda number: number % 3 != 2)
    return [
        NewJob(
            "print",
            {"ticket": number},
            JobOptions(target=Target(capabilities=(NEEDS[number % 3],))),
        )
        for number in ordered
    ]


@contextlib.asynccontextmanager
async def _room(store: Store, rooms: Rooms, name: str, offers: str) -> AsyncGenerator[None]:
    async with Worker(
        {"print": rooms.room(name)},
        store,
        server=name,
        capabilities=[offers],
        options=OPTIONS,
        scheduler=UPKEEP,
    ):
        yield


async def _until(rooms: Rooms, count: int, show: Show) -> None:
    async with asyncio.timeout(120):
        while len(rooms.printed) < count:
            show(len(rooms.printed))
            await asyncio.sleep(0.1)
    show(len(rooms.printed))

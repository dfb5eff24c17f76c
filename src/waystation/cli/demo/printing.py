"""The printing: each ticket asks for its printer, and one kind is missing at first."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from waystation.cli.demo.stage import Account, Stage, until
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

TITLE = "Printing"
PART = "waystation.routing: jobs that need a certain worker"

TICKETS = 6_000
NEEDS = ("paper", "foil", "braille")
OPTIONS = WorkerOptions(concurrency=40, lease=5.0)
UPKEEP = SchedulerOptions(tick=0.2, recover=0.5)


class Rooms:
    """Prints tickets, and notes in which room."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.printed: Counter[int] = Counter()
        self.by_room: Counter[str] = Counter()

    def room(self, name: str, offers: str) -> Worker:
        """A room with one kind of printer."""
        return Worker(
            {"print": self._printer(name)},
            self._url,
            server=name,
            capabilities=[offers],
            options=OPTIONS,
            scheduler=UPKEEP,
        )

    async def count(self) -> int:
        """Tickets that are printed."""
        return len(self.printed)

    def _printer(self, name: str) -> Callable[[Job], Coroutine[Any, Any, str]]:
        async def print_ticket(job: Job) -> str:
            await asyncio.sleep(random.uniform(0, 0.01))
            self.printed[job.data["ticket"]] += 1
            self.by_room[name] += 1
            return f"printed in {name}"

        return print_ticket


async def run(stage: Stage, url: str) -> Account:
    """Print every ticket where it can be printed."""
    rooms = Rooms(url)
    async with Queue(url) as queue:
        await queue.add_many(_tickets())
        stage.say(f"{TICKETS:,} tickets ask for paper, foil or braille, those in braille first.")
        with stage.progress("tickets printed", TICKETS) as show:
            async with rooms.room("cellar", "paper"), rooms.room("attic", "foil"):
                await until(rooms.count, TICKETS - TICKETS // 3, show)
                (row,) = [each for each in await queue.coverage() if not each.served]
                stage.say(
                    f"{row.waiting:,} tickets wait for what nobody has "
                    f"({', '.join(row.missing)}), and hold nobody up."
                )
                stage.say("A room with a braille printer opens.")
                async with rooms.room("annex", "braille"):
                    await until(rooms.count, TICKETS, show)
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

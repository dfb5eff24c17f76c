"""The people: four lanes of visitors at a shop with few seats, some of whom lose patience."""

import asyncio
from collections import Counter, defaultdict
from itertools import pairwise

from waystation.cli.demo.stage import Account, Show, Stage
from waystation.core.store.connection import connect
from waystation.waitingroom import Joined, JoinRequest, Lane, Place, Room, RoomOptions
from waystation.waitingroom.running import Admission
from waystation.waitingroom.visitor import Begun

TITLE = "The line outside"
PART = "waystation.waitingroom: people in a fair queue"

VISITORS = 5_000
IMPATIENT = 7
"""One in so many leaves before the turn comes."""
WORD = "what only the browser knows"
SHOP = RoomOptions(
    max_active=200, admission_rate=1000, newcomers_per_minute=0, events_cap=10 * VISITORS
)


class Crowd:
    """Visitors by the number in which they came; each lane is called in that order."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._places: dict[str, tuple[int, Place]] = {}
        self._calls: dict[int, list[int]] = defaultdict(list)
        self.seated: Counter[int] = Counter()
        self.left = 0

    async def come(self) -> None:
        """Everybody joins the line, one after the other; then some give up."""
        requests = [
            JoinRequest(key=f"visitor {number}", secret=WORD, lane=Lane(number % 4))
            for number in range(VISITORS)
        ]
        for number, entry in enumerate(await asyncio.gather(*map(self._room.join, requests))):
            if isinstance(entry, Joined):
                self._places[entry.place.id] = number, entry.place
        places = [place for number, place in self._places.values() if number % IMPATIENT == 0]
        gone = await asyncio.gather(*(self._room.leave(place, WORD) for place in places))
        self.left = gone.count(True)

    async def go_in(self, show: Show) -> None:
        """Those who are called take a seat, and leave it to the next, until nobody waits."""
        waiting = VISITORS
        async with asyncio.timeout(120):
            while waiting:
                step = await Admission(self._room).admit()
                await asyncio.gather(*map(self._take_seat, step.called))
                waiting = step.waiting
                show(self.left + len(self.seated))
                await asyncio.sleep(0.05)

    @property
    def overtaken(self) -> int:
        """How many were called after somebody who had joined their lane later."""
        return sum(
            later < earlier for calls in self._calls.values() for earlier, later in pairwise(calls)
        )

    async def _take_seat(self, id: str) -> None:
        number, place = self._places[id]
        self._calls[number % 4].append(number)
        if isinstance(await self._room.claim(place, WORD), Begun):
            self.seated[number] += 1
            await self._room.complete(place)


async def run(stage: Stage, url: str) -> Account:
    """Let a crowd stand in line, and account for everybody in it."""
    async with await connect(url) as store:
        room = Room("{opening}", store)
        await room.open(SHOP)
        crowd = Crowd(room)
        await crowd.come()
        stage.say(f"{VISITORS:,} people are in line for {SHOP.max_active} seats, in four lanes.")
        with stage.progress("people were in or have left", VISITORS) as show:
            await crowd.go_in(show)
        counts = await room.counts()
    return Account(
        title=TITLE,
        what="people",
        came_in=VISITORS,
        ends={
            "got a seat in the shop": len(crowd.seated),
            "lost patience and left": crowd.left,
            "are still in line": counts["waiting"],
        },
        twice=sum(count > 1 for count in crowd.seated.values()),
        remarks=(f"{crowd.overtaken or 'Nobody'} was overtaken in their own lane.",),
    )

"""Troubles: the queues and rooms that somebody should look at, with the reason in words."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from waystation.console.products.queue import ConsoleQueue, alone
from waystation.console.why import Answer, Cause, of_rooms
from waystation.console.why.answer import span
from waystation.core.events import Product
from waystation.core.store.connection import Store

WEIGHTS = {
    Cause.FAILING: 5,
    Cause.NOBODY: 4,
    Cause.NO_HANDLER: 4,
    Cause.UNMATCHED: 4,
    Cause.BROKEN: 3,
    Cause.BEHIND: 3,
    Cause.PAUSED: 2,
}
"""How much each cause matters; what is not here is how queues are meant to be."""
AGAIN_S = 10.0
"""For so long an answer of `why` serves."""
AT_ONCE = 4
"""Queues that are asked with one sample, so that many in trouble cost no more than a few."""
SEEN_S = 20.0
"""A wait has to grow for so long to be a trouble, and to be longer than that."""


class Trouble(msgspec.Struct, frozen=True):
    """What is wrong with a queue."""

    cause: Cause
    text: str
    """Why in words, without the name of the queue."""
    weight: int
    """The more, the sooner somebody should look."""


class _Point(Protocol):
    at: float
    failed: int
    completed_per_s: float
    failed_per_s: float
    oldest_s: float


class Suspect(Protocol):
    """A queue as it was measured."""

    product: str
    name: str
    ready: int
    paused: bool
    workers: int | None
    trouble: Trouble | None

    @property
    def points(self) -> Sequence[_Point]:
        """The latest samples, the oldest first."""
        ...


class Troubles:
    """Asks `why` of the queues that look as if something were wrong with them, now and then."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], tuple[float, Trouble | None]] = {}

    async def find(self, queues: Sequence[ConsoleQueue], samples: Sequence[Suspect]) -> None:
        """Give each sample its trouble, if it has one."""
        by_name = {(each.product, each.name): each for each in queues}
        doubtful = {_key(each): each for each in samples if _is_doubtful(each)}
        self._known = {key: self._known.get(key, (-AGAIN_S, None)) for key in doubtful}
        now = time.monotonic()
        due = [key for key, (at, _) in self._known.items() if now - at >= AGAIN_S]
        # Of those that were never asked, first where jobs fail now.
        failing = {key: each.points[-1].failed_per_s for key, each in doubtful.items()}
        due = sorted(due, key=lambda key: (self._known[key][0], -failing[key]))[:AT_ONCE]
        await asyncio.gather(*(self._ask(key, by_name.get(key)) for key in due))
        for each in samples:
            found = self._known.get(_key(each), (0.0, None))[1]
            each.trouble = found or plain(each)

    async def _ask(self, key: tuple[str, str], queue: ConsoleQueue | None) -> None:
        answer: Answer | None = None
        with alone(*key):
            if queue is not None:
                answer = await queue.why()
            elif key[0] == Product.WAITINGROOM:
                answer = await of_rooms.room(self._store, key[1])
        trouble = answer and trouble_of(answer.cause, answer.predicate)
        self._known[key] = time.monotonic(), trouble


def trouble_of(cause: Cause, text: str) -> Trouble | None:
    """The trouble that a cause is, if it is one."""
    weight = WEIGHTS.get(cause)
    return None if weight is None else Trouble(cause, text, weight)


def plain(sample: Suspect) -> Trouble | None:
    """What its figures alone say."""
    if sample.paused:
        return (
            None if sample.product == Product.WAITINGROOM else trouble_of(Cause.PAUSED, "is paused")
        )
    if sample.ready and sample.workers == 0:
        text = "has nobody who works on it: no worker is connected"
        return trouble_of(Cause.NOBODY, text)
    if (oldest_s := _grown_to(sample)) is not None:
        text = f"the oldest job has waited {span(oldest_s)}, and waits grow"
        return trouble_of(Cause.BEHIND, text)
    return None


def _grown_to(sample: Suspect) -> float | None:
    """The longest wait, if it grows at half the pace of the clock or faster."""
    first, last = sample.points[0], sample.points[-1]
    passed, grown = last.at - first.at, last.oldest_s - first.oldest_s
    is_long = passed >= SEEN_S and last.oldest_s >= SEEN_S
    return last.oldest_s if is_long and grown >= passed / 2 else None


def _is_doubtful(sample: Suspect) -> bool:
    """Whether `why` may know more than the figures say."""
    points = sample.points
    if sample.product == Product.BULLMQ and sample.ready and sample.workers == 0:
        return sample.paused
    # A room's rate is an average of late, and says nothing of this moment.
    is_room = sample.product == Product.WAITINGROOM
    is_still = is_room or not any(each.completed_per_s for each in points)
    return sample.paused or points[-1].failed > 0 or (sample.ready > 0 and is_still)


def _key(sample: Suspect) -> tuple[str, str]:
    return sample.product, sample.name

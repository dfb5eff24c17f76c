"""The box office: a worker sells tickets, is replaced half-way, and nobody is forgotten.

The line is in memory here, so this scene shows the worker alone: many purchases at once, a bank
that sometimes does not answer, and a stop in the middle of the rush.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from examples.ticket_sale.account import Account
from examples.ticket_sale.stage import Show, Stage
from waystation.core.backoff import Backoff, Growth
from waystation.core.errors import Unrecoverable
from waystation.core.outcome import Failed, Returned
from waystation.core.runtime.claim import Settled
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.testing.memory import MemorySource

TITLE: str = "The box office"
PART: str = "the worker alone, on a queue in memory"

PURCHASES = 8_000
BANK_S = 0.05
SILENT = 0.08
"""The part of all calls that the bank does not answer; asking again helps."""
REFUSED = 0.02
"""The part of all cards that the bank refuses; asking again does not."""

OPTIONS = WorkerOptions(concurrency=40, grace=0.02, poll=0.2)
RETRY = Backoff(Growth.EXPONENTIAL, delay_ms=50, jitter=0.5, cap_ms=1_000)


class Purchase(msgspec.Struct, frozen=True):
    """What a customer asks for."""

    number: int
    card_is_good: bool


class BoxOffice:
    """Sells a ticket for each purchase, through a bank with its moods."""

    def __init__(self, dice: random.Random) -> None:
        self.sold: Counter[int] = Counter()
        self._dice = dice

    async def sell(self, purchase: Purchase) -> str:
        """Charge the card, then hand out the ticket; the worker's handler."""
        await asyncio.sleep(self._dice.expovariate(1 / BANK_S))
        if not purchase.card_is_good:
            raise Unrecoverable("the bank refuses this card")
        if self._dice.random() < SILENT:
            raise TimeoutError("the bank does not answer")
        self.sold[purchase.number] += 1
        return f"ticket {purchase.number}"


class Tally:
    """Listens to the workers and counts."""

    def __init__(self) -> None:
        self.failures = self.handed_back = 0

    def claimed(self, claims: Any) -> None:
        """Nothing to count: what is claimed is settled or handed back."""

    def settled(self, settled: Sequence[Settled[Purchase]]) -> None:
        """Count what ended in another way than well."""
        for each in settled:
            self.failures += isinstance(each.outcome, Failed)
            self.handed_back += isinstance(each.outcome, Returned)

    def refused(self, refused: Sequence[Any]) -> None:
        """Nothing to count: the queue keeps what it believes in, and the account checks that."""

    def lost(self, claims: Sequence[Any]) -> None:
        """Nothing to count: the queue gives lost work to somebody else."""

    def troubled(self, error: Exception) -> None:
        """Nothing to count: a line in memory is never away."""


async def run(stage: Stage) -> Account:
    """Sell every ticket with two workers, one after the other."""
    dice = random.Random(2024)
    line, office, tally = MemorySource(dice=dice), BoxOffice(dice), Tally()
    stage.say(
        f"{PURCHASES:,} people want a ticket at once; "
        f"a worker serves {OPTIONS.concurrency} of them at a time."
    )
    for number in range(PURCHASES):
        line.add(Purchase(number, dice.random() >= REFUSED), attempts=8, backoff=RETRY)
    with stage.progress("purchases settled", PURCHASES) as show:
        async with _worker(line, office, tally):
            await _until(line, PURCHASES // 2, show)
        stage.say(
            "Half-way the worker is told to stop. It finishes what it can "
            f"and hands {tally.handed_back} purchases back untouched."
        )
        stage.say("A second worker takes over where the first one stopped.")
        async with _worker(line, office, tally):
            await _until(line, PURCHASES, show)
    return _account(line, office, tally)


@contextlib.asynccontextmanager
async def _worker(line: MemorySource, office: BoxOffice, tally: Tally) -> AsyncGenerator[None]:
    handler = handler_of(office.sell)
    worker = Worker(line, handler, OPTIONS, listener=tally)
    running = asyncio.create_task(worker.run())
    yield
    worker.stop()
    await running


async def _until(line: MemorySource, count: int, show: Show) -> None:
    while (settled := _settled(line)) < count:
        show(settled)
        await asyncio.sleep(0.1)
    show(settled)


def _settled(line: MemorySource) -> int:
    return sum(entry.state in ("completed", "failed") for entry in line.entries.values())


def _account(line: MemorySource, office: BoxOffice, tally: Tally) -> Account:
    failed = [entry for entry in line.entries.values() if entry.state == "failed"]
    refused = sum(isinstance(entry.error, Unrecoverable) for entry in failed)
    return Account(
        title=TITLE,
        what="purchases",
        came_in=PURCHASES,
        # What the office did, not what the queue believes: the two must add up.
        ends={
            "ended with a ticket": len(office.sold),
            "ended because the bank refuses the card": refused,
            "were given up because the bank never answered": len(failed) - refused,
        },
        twice=sum(count > 1 for count in office.sold.values()),
        remarks=(
            f"The bank did not answer {tally.failures - refused:,} times; "
            "each purchase waited a little and was tried again.",
            f"The first worker handed back {tally.handed_back} purchases when it was stopped; "
            "the second one served them.",
        ),
    )

"""The purchases: jobs on a real server, two cashiers, one of whom is killed at work."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator

from examples.ticket_sale.account import Account
from examples.ticket_sale.cashier import QUEUE
from examples.ticket_sale.crew import at_work
from examples.ticket_sale.stage import Show, Stage
from waystation.bullmq import Backoff, JobOptions, Queue, QueueEvents
from waystation.core.store import embedded

TITLE: str = "The purchases"
PART: str = "waystation.bullmq: jobs on the wire of Node's BullMQ"

PURCHASES = 10_000
OPTIONS = JobOptions(attempts=10, backoff=Backoff.exponential(0.05, jitter=0.5))


class Ledger:
    """What the queue's own stream of events says became of every purchase."""

    def __init__(self) -> None:
        self.completed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.rescued: set[str] = set()
        self.retries = 0

    @property
    def settled(self) -> int:
        """Purchases that have come to an end."""
        return len(self.completed) + len(self.failed)

    async def follow(self, events: QueueEvents) -> None:
        """Write down what happens until cancelled."""
        async for event in events.listen("0"):
            match event.name, event.job_id:
                case "completed", str(id):
                    self.completed[id] += 1
                case "failed", str(id):
                    self.failed[id] += 1
                case "stalled", str(id):
                    self.rescued.add(id)
                case "retry", _:
                    self.retries += 1
                case _:
                    pass


async def run(stage: Stage) -> Account:
    """Sell through two cashiers, kill one of them, and count."""
    ledger = Ledger()
    with embedded.ephemeral() as server:
        stage.say("A server has been started for the show; any Redis or Valkey would do.")
        async with (
            Queue(QUEUE, server.url) as queue,
            QueueEvents(QUEUE, server.url) as events,
            _following(ledger, events),
            at_work("cashier", server.url, "ada") as ada,
            at_work("cashier", server.url, "ben"),
        ):
            await queue.add_many(
                ("charge", {"seat": number}, OPTIONS) for number in range(PURCHASES)
            )
            stage.say(f"{PURCHASES:,} purchases are jobs now; Ada and Ben charge the cards.")
            with stage.progress("purchases settled", PURCHASES) as show:
                await _until(ledger, PURCHASES // 3, show)
                ada.kill()
                stage.say("Ada's process is killed in the middle of her work (SIGKILL).")
                await _until(ledger, PURCHASES, show)
            state = await queue.counts("waiting", "active", "delayed")
    return _account(ledger, still_there=sum(state.values()))


@contextlib.asynccontextmanager
async def _following(ledger: Ledger, events: QueueEvents) -> AsyncGenerator[None]:
    following = asyncio.create_task(ledger.follow(events))
    try:
        yield
    finally:
        following.cancel()


async def _until(ledger: Ledger, count: int, show: Show) -> None:
    async with asyncio.timeout(120):
        while ledger.settled < count:
            show(ledger.settled)
            await asyncio.sleep(0.1)
    show(ledger.settled)


def _account(ledger: Ledger, *, still_there: int) -> Account:
    twice = (ledger.completed + ledger.failed).values()
    return Account(
        title=TITLE,
        what="purchases",
        came_in=PURCHASES,
        ends={
            "ended with a ticket": len(ledger.completed),
            "were given up because the bank never answered": len(ledger.failed),
            "are still in the queue": still_there,
        },
        twice=sum(count > 1 for count in twice),
        remarks=(
            f"{len(ledger.rescued)} purchases were in Ada's hands when she was killed; "
            "their leases ran out and Ben served them.",
            f"The bank did not answer {ledger.retries:,} times; "
            "each purchase waited a little and was tried again.",
        ),
    )

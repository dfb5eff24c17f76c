"""The purchases: jobs for two cashiers, one of whom is killed at work."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncGenerator

from waystation.bullmq import Backoff, Job, JobOptions, Queue, QueueEvents, Worker
from waystation.cli.demo.crew import at_work, work
from waystation.cli.demo.stage import Account, Stage, until

TITLE = "Purchases"
PART = "waystation.bullmq: jobs, compatible with Node's BullMQ"

QUEUE = "purchases"
PURCHASES = 10_000
OPTIONS = JobOptions(attempts=10, backoff=Backoff.exponential(0.05, jitter=0.5))
BANK_S = 0.02


async def charge(job: Job) -> dict[str, str]:
    """Charge the card; every now and then the bank does not answer."""
    await asyncio.sleep(random.expovariate(1 / BANK_S))
    if random.random() < 0.03:
        raise TimeoutError("the bank does not answer")
    return {"ticket": f"seat {job.data['seat']}"}


def cashier(url: str) -> Worker:
    """A worker with short leases, so that nobody waits long for a dead cashier's purchases."""
    return Worker(QUEUE, charge, url, concurrency=25, lease=1, stalled_interval=1, max_stalled=3)


class Ledger:
    """What the queue's own stream of events says became of every purchase."""

    def __init__(self) -> None:
        self.completed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.rescued: set[str] = set()
        self.retries = 0

    async def settled(self) -> int:
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


async def run(stage: Stage, url: str) -> Account:
    """Sell through two cashiers, kill one of them, and count."""
    ledger = Ledger()
    async with (
        Queue(QUEUE, url) as queue,
        QueueEvents(QUEUE, url) as events,
        _following(ledger, events),
        at_work(__name__, url) as ada,
        at_work(__name__, url),
    ):
        await queue.add_many(("charge", {"seat": number}, OPTIONS) for number in range(PURCHASES))
        stage.say(f"{PURCHASES:,} purchases are jobs now; Ada and Ben charge the cards.")
        with stage.progress("purchases settled", PURCHASES) as show:
            await until(ledger.settled, PURCHASES // 3, show)
            ada.kill()
            stage.say("Ada's process is killed in the middle of her work (SIGKILL).")
            await until(ledger.settled, PURCHASES, show)
        state = await queue.counts("waiting", "active", "delayed")
    return _account(ledger, still_there=sum(state.values()))


@contextlib.asynccontextmanager
async def _following(ledger: Ledger, events: QueueEvents) -> AsyncGenerator[None]:
    following = asyncio.create_task(ledger.follow(events))
    try:
        yield
    finally:
        following.cancel()


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


if __name__ == "__main__":
    work(cashier)

"""The tasks: mail, deliveries, and an order from the shelf to the review."""

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import NAMESPACE_OID, uuid5

from examples.bookshop import warehouse
from waystation.bullmq import Job
from waystation.errors import TimedOut, Unrecoverable
from waystation.tasks import Tasks, depends

log = logging.getLogger(__name__)
tasks = Tasks()


class Mailer:
    """Writes mail to the log; a real one would talk to a mail server."""

    async def send(self, to: str, text: str) -> None:
        """Send a mail."""
        log.info("to %s: %s", to, text)


async def open_mailer() -> AsyncIterator[Mailer]:
    """One mailer for all jobs of a worker, closed when it stops."""
    yield Mailer()


@tasks.task(queue="mail", retries=5, timeout=30)
async def mail(to: str, text: str, mailer: Mailer = depends(open_mailer)) -> None:
    """Send a mail."""
    await mailer.send(to, text)


@tasks.task(queue="deliveries", retries=5)
def receive(number: str, isbn: str, copies: int) -> None:
    """Put a delivery on the shelf; a plain function, which runs in a thread."""
    warehouse.receive(number, isbn, copies)


@tasks.task(queue="orders", retries=5)
async def fulfil(order_id: str, email: str, job: Job = depends(Job)) -> str:
    """See an order through. It takes weeks, and holds a worker for milliseconds of them."""
    await job.step("reserve", warehouse.reserve, order_id)
    job.on_failure("release", warehouse.release, order_id)
    await job.step(
        "bill", add_mail, order_id, email, "We keep your books for two days. Please pay."
    )
    try:
        await job.wait_for("paid", timeout=timedelta(days=2))
    except TimedOut as error:
        raise Unrecoverable("not paid within two days") from error

    parcel = await job.step("ship", warehouse.ship, order_id)
    await job.step("announce", add_mail, order_id, email, f"Your books are on their way: {parcel}.")
    await job.sleep(days=14)
    await job.step("ask", add_mail, order_id, email, "How did you like your books?")
    return parcel


async def add_mail(order_id: str, email: str, text: str) -> str:
    """Add a mail; if a crash lets us come here again, the same id makes it the same mail."""
    same = uuid5(NAMESPACE_OID, f"{order_id} {text}")
    job = await mail.with_options(job_id=f"mail-{same}").add(to=email, text=text)
    return job.id

"""The history: the pipeline turns the cashiers' events into tables, and Spark counts them again."""

import asyncio
import datetime as dt
import tempfile
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import functions as F

from examples.ticket_sale.account import Account
from examples.ticket_sale.cashier import QUEUE
from examples.ticket_sale.crew import at_work
from examples.ticket_sale.stage import Show, Stage
from waystation.bullmq import Backoff, JobOptions, Queue
from waystation.core.store import embedded
from waystation.pipeline import runner
from waystation.pipeline.history import History
from waystation.pipeline.reports.console import console_report
from waystation.pipeline.reports.facts import QueueReport, Report, report
from waystation.pipeline.reports.page import html_report
from waystation.pipeline.runner import RunOptions, raise_stream_limits
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.spark import session
from waystation.pipeline.tables import EVENTS

TITLE: str = "The history"
PART: str = "pipeline: events turned into history, with Spark"

PURCHASES = 3_000
PAGE = Path("ticket-sale.html")
OPTIONS = JobOptions(attempts=10, backoff=Backoff.exponential(0.05, jitter=0.5))


async def run(stage: Stage) -> Account:
    """Sell once more, keep the history of it, and let Spark check the account."""
    with embedded.ephemeral() as server, tempfile.TemporaryDirectory() as folder:
        await asyncio.to_thread(raise_stream_limits, EventOptions(url=server.url, queues=QUEUE))
        stage.say(f"{PURCHASES:,} more purchases; one of the two cashiers is killed again.")
        stage.say("Meanwhile Spark starts; a Java machine takes its time.")
        starting = asyncio.create_task(asyncio.to_thread(session.start_session, _session()))
        await _sell(stage, server.url)
        spark = await starting
        try:
            stage.say("Spark folds the stream into attempts, items and answers, and then")
            stage.say("counts the events once more on their own.")
            history = History(spark, folder)
            facts = await asyncio.to_thread(_closed_books, stage, history, server.url)
            recount = await asyncio.to_thread(_recounted, history)
        finally:
            await asyncio.to_thread(spark.stop)
    stage.show(console_report(facts))
    return _account(facts, recount)


async def _sell(stage: Stage, url: str) -> None:
    async with (
        Queue(QUEUE, url) as queue,
        at_work("cashier", url, "ada") as ada,
        at_work("cashier", url, "ben"),
    ):
        await queue.add_many(("charge", {"seat": number}, OPTIONS) for number in range(PURCHASES))
        with stage.progress("purchases settled", PURCHASES) as show:
            await _until(queue, PURCHASES // 3, show)
            ada.kill()
            await _until(queue, PURCHASES, show)


async def _until(queue: Queue, count: int, show: Show) -> None:
    async with asyncio.timeout(120):
        while (settled := sum((await queue.counts("completed", "failed")).values())) < count:
            show(settled)
            await asyncio.sleep(0.1)
    show(settled)


def _session() -> session.SessionOptions:
    return session.SessionOptions(master="local[2]", few_rows=True, conf={"spark.log.level": "OFF"})


def _closed_books(stage: Stage, history: History, url: str) -> Report:
    runner.run(history, RunOptions(events=EventOptions(url=url)), _Progress(stage))
    facts = report(History(history.spark, history.root), dt.datetime.now(dt.UTC))
    PAGE.write_text(html_report(facts))
    return facts


class Recount(NamedTuple):
    """What Spark finds in the events, without the tables made of them."""

    purchases: int
    ended_once: int
    ended_twice: int


def _recounted(history: History) -> Recount:
    ends = F.count_if(F.col("event").isin("completed", "failed"))
    by_purchase = history.read(EVENTS).dropna(subset="job_id").groupBy("job_id")
    row = by_purchase.agg(ends.alias("ends")).agg(
        F.count("job_id"),
        F.count_if(F.col("ends") == 1),
        F.count_if(F.col("ends") > 1),
    )
    return Recount(*row.collect()[0])


class _Progress:
    """Says what the pipeline does."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def begin(self, what: str, total: int | None = None) -> None:
        self._stage.say(f"[dim]… {what}[/]")

    def reach(self, done: int) -> None:
        pass


def _account(facts: Report, recount: Recount) -> Account:
    (queue,) = facts.queues
    return Account(
        title=TITLE,
        what="purchases",
        came_in=PURCHASES,
        ends={
            "ended, by the ledger": queue.terminal,
            "are still in the queue": queue.visible or 0,
        },
        twice=max(queue.duplicated, recount.ended_twice),
        remarks=(
            f"{facts.events:,} events were read, those of {queue.acknowledged:,} purchases.",
            f"Spark counted {recount.purchases:,} purchases in these events; "
            f"{recount.ended_once:,} of them ended exactly once.",
            _silent(queue),
        ),
    )


def _silent(queue: QueueReport) -> str:
    return (
        f"{queue.stalled} attempts ended in silence when Ada was killed; "
        "each was followed by another."
    )

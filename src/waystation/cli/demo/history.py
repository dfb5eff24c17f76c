"""The history: Spark turns the events of the whole sale into tables, and counts it again."""

import asyncio
import datetime as dt
import tempfile
from pathlib import Path

from waystation.cli.demo.letters import LETTERS
from waystation.cli.demo.people import VISITORS
from waystation.cli.demo.printing import TICKETS
from waystation.cli.demo.purchases import PURCHASES
from waystation.cli.demo.stage import Account, Stage
from waystation.pipeline import runner
from waystation.pipeline.history import History
from waystation.pipeline.reports.console import console_report
from waystation.pipeline.reports.facts import Report, report
from waystation.pipeline.reports.page import html_report
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.spark import session

TITLE = "The history"
PART = "waystation.pipeline: what happened to every job, in tables"

PAGE = Path("waystation-demo.html")
OPTIONS = session.SessionOptions(master="local[2]", few_rows=True, conf={"spark.log.level": "OFF"})


def keep_all(url: str) -> None:
    """Let the streams of events grow as long as a pipeline that follows them does."""
    runner.raise_stream_limits(EventOptions(url=url, queues="purchases"))


async def run(stage: Stage, url: str) -> Account:
    """Let Spark read the events of all scenes, and check the account."""
    stage.say("Spark reads the events of all scenes from their streams, and folds them into")
    stage.say("a row for each job, each attempt and each visitor.")
    facts = await asyncio.to_thread(_facts, stage, url)
    stage.show(console_report(facts))
    return Account(
        title=TITLE,
        what="jobs and people",
        came_in=PURCHASES + TICKETS + LETTERS + VISITORS,
        ends={
            "ended, says the history": sum(each.terminal for each in facts.queues),
            "are still in a queue": sum(each.visible or 0 for each in facts.queues),
        },
        twice=sum(each.duplicated for each in facts.queues),
        remarks=(
            f"{facts.events:,} events were read.",
            f"{sum(each.stalled for each in facts.queues)} attempts ended in silence when their "
            "workers were killed; each was followed by another.",
            f"{PAGE} has the report; open it in a browser.",
        ),
    )


def _facts(stage: Stage, url: str) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        spark = session.start_session(OPTIONS)
        try:
            history = History(spark, folder)
            runner.run(history, RunOptions(events=EventOptions(url=url)), _Progress(stage))
            facts = report(history, dt.datetime.now(dt.UTC))
            PAGE.write_text(html_report(facts))
            return facts
        finally:
            spark.stop()


class _Progress:
    """Says what the pipeline does."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def begin(self, what: str, total: int | None = None) -> None:
        self._stage.say(f"[dim]… {what}[/]")

    def reach(self, done: int) -> None:
        pass

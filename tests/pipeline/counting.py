"""Counts of what a block of code made Spark do: queries, temporary views, jobs, tasks.

The number of distinct plans is the price of a small batch, and it is the same on every machine.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec
from pyspark.sql import SparkSession

_VIEW = "CreateViewCommand"


class Execution(msgspec.Struct, frozen=True):
    """One plan that Spark has executed."""

    id: int
    called_by: str
    """What was called, and where in the program if Python called it."""
    plan: str
    jobs: int

    @property
    def is_view(self) -> bool:
        """Whether it only gave a name to a frame."""
        return _VIEW in self.plan[:200]

    def __str__(self) -> str:
        return f"{self.id}: {self.jobs} jobs, {' '.join(self.called_by.split())}"


class Counts(msgspec.Struct):
    """What Spark did in a block; filled when the block ends."""

    queries: int = 0
    """Plans that were executed, without those that only name a frame."""
    views: int = 0
    """Frames that got a name, each by a plan of its own."""
    texts: int = 0
    """Calls of `spark.sql`, each of which is parsed and analysed."""
    to_arrow: int = 0
    """Queries whose rows came to the driver as Arrow."""
    jobs: int = 0
    stages: int = 0
    tasks: int = 0
    executions: list[Execution] = []
    """All plans, in the order in which they were executed."""

    def __str__(self) -> str:
        names = ("queries", "views", "texts", "to_arrow", "jobs", "stages", "tasks")
        numbers = [f"{name} {getattr(self, name)}" for name in names]
        listed = [str(each) for each in self.executions if not each.is_view]
        return "\n  ".join([", ".join(numbers), *listed])


@contextmanager
def counting(spark: SparkSession) -> Generator[Counts]:
    """Count what Spark does in a block, whichever thread asks for it."""
    counts = Counts()
    before = max((each.executionId() for each in _executions(spark)), default=-1)
    jobs_before = max((job.jobId() for job in _jobs(spark)), default=-1)
    with _counted_texts(counts):
        yield counts
    new = (each for each in _executions(spark) if each.executionId() > before)
    counts.executions = sorted(map(_described, new), key=lambda each: each.id)
    counts.views = sum(each.is_view for each in counts.executions)
    counts.queries = len(counts.executions) - counts.views
    counts.to_arrow = sum(each.called_by.startswith("toArrow") for each in counts.executions)
    for job in _jobs(spark):
        if job.jobId() > jobs_before:
            counts.jobs += 1
            counts.stages += job.numCompletedStages()
            counts.tasks += job.numCompletedTasks()


def _executions(spark: SparkSession) -> Iterator[Any]:
    _wait_for_listeners(spark)
    session: Any = spark
    return _elements(session._jsparkSession.sharedState().statusStore().executionsList())


def _described(execution: Any) -> Execution:
    return Execution(
        execution.executionId(),
        execution.description(),
        execution.physicalPlanDescription(),
        execution.jobs().size(),
    )


def _jobs(spark: SparkSession) -> Iterator[Any]:
    _wait_for_listeners(spark)
    return _elements(_context(spark).statusStore().jobsList(None))


def _elements(found: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (found.apply(place) for place in range(found.size()))


def _wait_for_listeners(spark: SparkSession) -> None:
    """What is counted is reported by another thread, somewhat later."""
    _context(spark).listenerBus().waitUntilEmpty()


def _context(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    return context._jsc.sc()


@contextmanager
def _counted_texts(counts: Counts) -> Generator[None]:
    sql: Callable[..., Any] = SparkSession.sql

    def counted(*given: Any, **frames: Any) -> Any:
        counts.texts += 1
        return sql(*given, **frames)

    cast(Any, SparkSession).sql = counted
    try:
        yield
    finally:
        cast(Any, SparkSession).sql = sql

"""What Spark does in a warm round has a budget: in counts, which are the same on every machine."""

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from benchmarks.pipeline_rounds import write_round
from tests.pipeline.counting import Counts, counting
from waystation.pipeline.history import History
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.sources.streams import EventOptions

QUERIES, VIEWS, TEXTS, JOBS = 8, 0, 0, 9
"""Most of each in a round over new events of one product."""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_warm_round_keeps_its_budget(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    history = History(spark, root)
    options = RunOptions(events=EventOptions(url=redis_url))
    _, warm = (counted(history, options, store, turn) for turn in range(2))
    assert warm.queries <= QUERIES, warm
    assert warm.views <= VIEWS, warm
    assert warm.texts <= TEXTS, warm
    assert warm.jobs <= JOBS, warm


def counted(history: History, options: RunOptions, store: Redis, turn: int) -> Counts:
    write_round(store, turn)
    with counting(history.spark) as counts:
        result = run(history, options)
    assert (result.events, result.failed_checks) == (1000, ())
    return counts

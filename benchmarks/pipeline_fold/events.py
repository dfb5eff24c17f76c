"""Made-up events of many jobs, some of which fail and are tried again, as files of Parquet."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.pipeline.spark.session import SessionOptions, start_session
from waystation.pipeline.tables import EVENTS

EVENTS_A_JOB = 5
"""Four where all goes well, eight where it does not: a little more than five on average."""
START_MS = 1_790_000_000_000

_TAKEN = ["added", "waiting", "active"]
_AGAIN = [*_TAKEN, "delayed", "retry", "waiting", "active"]


def write(files: str, many: int) -> None:
    """Leave about so many events in a folder."""
    spark = start_session(SessionOptions(master="local[2]", conf={"spark.log.level": "OFF"}))
    _events(spark, many // EVENTS_A_JOB).write.parquet(files)
    spark.stop()


def _events(spark: SparkSession, jobs: int) -> DataFrame:
    fate = F.pmod(F.hash("id"), F.lit(100))
    story = (
        F.when(fate < 70, _words(*_TAKEN, "completed"))
        .when(fate < 97, _words(*_AGAIN, "completed"))
        .otherwise(_words(*_AGAIN, "failed"))
    )
    history = spark.range(jobs).select("id", F.posexplode(story).alias("nth", "event"))
    millis = F.col("id") * 20 + F.col("nth") * (1 + F.pmod(F.hash("id"), F.lit(900))) + START_MS
    at = F.timestamp_millis(millis)
    number = F.pmod("id", F.lit(8))
    worker = F.concat(F.lit("w"), F.pmod("id", F.lit(16)))
    reason = F.create_map(F.lit("failedReason"), F.concat(F.lit("no answer to "), F.col("id")))
    columns = {
        "product": F.lit("bullmq"),
        "queue": F.concat(F.lit("q"), number),
        "stream": F.concat(F.lit("bull:q"), number, F.lit(":events")),
        "entry_id": F.concat_ws("-", millis, "id"),
        "seq": F.col("id"),
        "recorded_at": at,
        "at": at,
        "event": F.col("event"),
        "job_id": F.col("id").cast("string"),
        "attempt": F.lit(None).cast("int"),
        "worker": F.when(F.col("event") == "active", worker),
        "fields": F.when(F.col("event").isin("retry", "failed"), reason),
        "version": F.lit(1),
        "_corrupt": F.lit(None).cast("string"),
        "date": F.to_date(at),
    }
    return history.select(*(columns[name].alias(name) for name in EVENTS.names))


def _words(*words: str) -> Column:
    return F.array(*map(F.lit, words))

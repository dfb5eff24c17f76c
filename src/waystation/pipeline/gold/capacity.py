"""Capacity: the workers that the arrivals of an hour need."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.gold import staffing
from waystation.pipeline.gold.sketches import percentile
from waystation.pipeline.gold.staffing import MINUTE_S, Service, Slot
from waystation.pipeline.tables import CAPACITY

DEFAULT_TARGET_MS = 1_000
"""Target wait, in milliseconds."""
OF = ("line", "queue", "hour")
_HOUR_S = 3600.0
_ADVICE = "busiest_per_s double, workers_needed bigint"


def capacity(
    steps: DataFrame, attempts: DataFrame, hourly: DataFrame, *, target_ms: int
) -> DataFrame:
    """One row for each queue and hour."""
    hours = hourly.select(*OF, percentile(F.col("run_sketch"), 0.95).alias("service_p95_ms"))
    slot_s = staffing.slot_seconds(target_ms / 1000)
    # Without Arrow, which needs pandas.
    advise = F.udf(partial(_advice, slot_s, target_ms / 1000), _ADVICE, useArrow=False)
    return (
        _arrivals(steps, slot_s)
        .join(_services(attempts), list(OF), "full")
        .join(hours, list(OF), "left")
        .withColumn("arrivals_per_s", F.coalesce("arrivals_per_s", F.lit(0.0)))
        .withColumn("seen_workers", F.coalesce("seen_workers", F.lit(0)))
        .withColumn("busy_workers", F.col("arrivals_per_s") * F.col("service_mean_ms") / 1000.0)
        .withColumn("target_wait_ms", F.lit(target_ms).cast("bigint"))
        .withColumn("advice", advise("slots", "service_mean_ms", "spread"))
        .select("*", "advice.*")
        .select(*CAPACITY.names)
    )


def _arrivals(steps: DataFrame, slot_s: float) -> DataFrame:
    """Jobs that became ready, by slot: each `waiting` event, also after a retry."""
    hour = F.date_trunc("hour", "at")
    into_s = (F.unix_millis("at") - F.unix_millis(hour)) / 1000.0
    slots = (
        steps.where(F.col("event") == "waiting")
        .groupBy(
            "line", "queue", hour.alias("hour"), F.floor(into_s / slot_s).cast("int").alias("slot")
        )
        .agg(F.count("*").alias("many"), F.max(into_s).alias("last_s"))
    )
    # In an hour that is not over, arrivals are divided by the part that has passed.
    seconds = F.greatest(F.lit(MINUTE_S), F.least(F.lit(_HOUR_S), F.max("last_s")))
    return slots.groupBy(*OF).agg(
        (F.sum("many") / seconds).alias("arrivals_per_s"),
        F.array_sort(F.collect_list(F.struct("slot", "many"))).alias("slots"),
    )


def _services(attempts: DataFrame) -> DataFrame:
    mean = F.avg("run_ms")
    return attempts.groupBy("line", "queue", F.date_trunc("hour", "started_at").alias("hour")).agg(
        mean.alias("service_mean_ms"),
        F.try_divide(F.var_pop("run_ms"), mean * mean).alias("spread"),
        F.count_distinct("worker").alias("seen_workers"),
    )


def _advice(
    slot_s: float,
    target_s: float,
    came: Sequence[tuple[int, int]] | None,
    mean_ms: float | None,
    spread: float | None,
) -> tuple[float, int | None]:
    """Arrivals per second in the busiest minute, and the workers needed; None if nothing ran."""
    slots = [Slot(*each) for each in came or ()]
    minutes = Counter[int]()
    for slot in slots:
        minutes[int(slot.number * slot_s // MINUTE_S)] += slot.many
    busiest = max(minutes.values(), default=0) / MINUTE_S
    if mean_ms is None:
        return busiest, None
    if not slots:
        return busiest, 1
    service = Service(mean_ms / 1000, 1.0 if spread is None else spread)
    return busiest, staffing.workers(slots, slot_s, service, target_s)

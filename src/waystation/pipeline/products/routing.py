"""Routing: rows as jobs, and the tables `routes` and `cron_slots`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType

from waystation.core import codec
from waystation.core.errors import InvalidOption
from waystation.core.events import Line
from waystation.core.line.server_time import SERVER_TIME
from waystation.pipeline.products.facts import ProductFacts, ProductTable, State, list_elements
from waystation.pipeline.tables import FLAG, INSTANT, INT, LONG, TEXT, Column, Layer, Table
from waystation.routing.options import JobOptions, Retry
from waystation.routing.queue import NewJob, record
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import NAMESPACE, RoutingKeys
from waystation.routing.schedules import Schedule, next_slot
from waystation.routing.target import Target

LATE_MS = 5_000
"""Delay from which on a slot is late."""
MOST_SLOTS = 100_000
"""Most slots that are expected of one schedule."""

ROUTES = Table(
    name="routes",
    layer=Layer.GOLD,
    meaning="one row for each job type and target: jobs that need it, workers that serve it",
    key=("queue", "target"),
    columns=(
        Column("queue", TEXT, "job type"),
        Column("target", TEXT, "signature of the target that a worker must match"),
        Column("added", LONG, "jobs added"),
        Column("started", LONG, "of them, claimed at least once"),
        Column("waiting", LONG, "of them, ready and neither claimed nor ended"),
        Column("workers", LONG, "workers that have claimed one"),
        Column("unserved", FLAG, "jobs wait, and no worker has ever claimed one"),
        Column("wait_ms", LONG, "longest wait until the first claim, in milliseconds"),
        Column("head_since", INSTANT, "since when the oldest waiting job waits"),
        Column("head_ms", LONG, "milliseconds that it has waited at the last event"),
    ),
)

CRON_SLOTS = Table(
    name="cron_slots",
    layer=Layer.GOLD,
    meaning="one row for each slot of a schedule: expected by its cron expression, and fired",
    key=("queue", "schedule", "slot"),
    columns=(
        Column("queue", TEXT, "job type"),
        Column("schedule", TEXT, "id of the schedule"),
        Column("slot", INSTANT, "when it should fire"),
        Column("expected", FLAG, "whether the cron expression has this slot"),
        Column("fired", INT, "times it fired"),
        Column("fired_at", INSTANT, "when it first fired"),
        Column("late_ms", LONG, "milliseconds from `slot` to `fired_at`"),
        Column("skipped", TEXT, "why it was skipped, where the event has it"),
        Column("verdict", TEXT, "on time, late, doubled, skipped, missed or unexpected"),
    ),
)


class RoutingEncoder:
    """Encodes a row as a job of its type; text must be JSON."""

    add = scripts.dispatch
    columns = ("type", "payload", "target", "priority", "delay", "attempts", "job_id")
    width = 8

    def keys(self, queue: str, prefix: str) -> RoutingKeys:
        """The keys of the namespace; each row's type is its queue."""
        return RoutingKeys(prefix)

    def leading(self, keys: RoutingKeys) -> Sequence[str]:
        """The namespace, and the server's time."""
        return keys.namespace, SERVER_TIME

    def with_setup(self, setup: str) -> "RoutingEncoder":
        """Refuse a setup: routing has none."""
        raise InvalidOption(f"routing takes no setup, got {setup}")

    def job(self, keys: RoutingKeys, row: Mapping[str, Any]) -> Sequence[Any]:
        """Kind, id, data, route, due time; no key and no jobs to wait for."""
        get = row.get
        given: dict[str, Any] = {
            "target": _json(get("target"), Target),
            "schedule": Schedule(delay=(get("delay") or 0) / 1000),
            "retry": None if get("attempts") is None else Retry(attempts=row["attempts"]),
            "priority": get("priority"),
            "job_id": get("job_id"),
        }
        options = JobOptions(**{name: value for name, value in given.items() if value is not None})
        payload = _json(get("payload"), Any)
        return record(
            NewJob(cast(str, get("type")), payload, options), now_ms=time.time_ns() // 1_000_000
        )


def _json(text: Any, kind: Any) -> Any:
    return codec.decode(text, kind) if isinstance(text, str) else text


def routes(events: DataFrame) -> DataFrame:
    """One row for each job type and target."""
    ours = events.where(F.col("line") == Line.ROUTING.value)
    ended = ("completed", "dead", "cancelled", "removed")
    added = ours.where(F.col("event") == "added").select(
        "queue", "subject", F.col("fields")["target"].alias("target"), F.col("at").alias("added_at")
    )
    fates = ours.groupBy("subject").agg(
        F.min(F.when(F.col("event") == "waiting", F.col("at"))).alias("ready_at"),
        F.min(F.when(F.col("event") == "active", F.col("at"))).alias("started_at"),
        F.max(F.when(F.col("event").isin(*ended), F.col("at"))).alias("ended_at"),
        F.collect_set(F.when(F.col("event") == "active", F.col("worker"))).alias("workers"),
    )
    last = ours.agg(F.max("told_at").alias("last_at"))
    waits = (
        F.col("ready_at").isNotNull() & F.col("started_at").isNull() & F.col("ended_at").isNull()
    )
    waited = F.unix_millis("started_at") - F.unix_millis("ready_at")
    return (
        added.join(fates, "subject")
        .groupBy("queue", "target")
        .agg(
            F.count("*").alias("added"),
            F.count("started_at").alias("started"),
            F.count_if(waits).alias("waiting"),
            F.size(F.array_distinct(F.flatten(F.collect_list("workers"))))
            .cast("long")
            .alias("workers"),
            F.max(waited).alias("wait_ms"),
            F.min(F.when(waits, F.col("ready_at"))).alias("head_since"),
        )
        .crossJoin(last)
        .withColumn("unserved", (F.col("waiting") > 0) & (F.col("workers") == 0))
        .withColumn("head_ms", F.unix_millis("last_at") - F.unix_millis("head_since"))
        .select(*ROUTES.names)
    )


def expected_slots(cron: str, timezone: str, first_ms: int, until_ms: int) -> list[int]:
    """The slots of a schedule from its first up to an instant, in its time zone."""
    slots: list[int] = []
    slot: int | None = first_ms
    while slot is not None and slot <= until_ms and len(slots) < MOST_SLOTS:
        slots.append(slot)
        slot = next_slot(cron, timezone, slot)
    return slots


def cron_slots(events: DataFrame) -> DataFrame:
    """One row for each slot that a schedule should have fired or has fired."""
    ours = events.where(F.col("line") == Line.ROUTING.value)
    return (
        _expected(ours)
        .join(_fired(ours), ["queue", "schedule", "slot_ms"], "full")
        .withColumn("expected", F.coalesce("expected", F.lit(False)))
        .withColumn("fired", F.coalesce("fired", F.lit(0)))
        .withColumn("slot", F.timestamp_millis("slot_ms"))
        .withColumn("late_ms", F.unix_millis("fired_at") - F.col("slot_ms"))
        .withColumn("verdict", _verdict())
        .select(*CRON_SLOTS.names)
    )


def _expected(ours: DataFrame) -> DataFrame:
    """The slots of every schedule, until it was cancelled or up to the last event."""
    fields = F.col("fields")
    # Without Arrow, which needs pandas.
    expand = F.udf(expected_slots, ArrayType(LongType()), useArrow=False)
    last = ours.agg(F.max("told_at").alias("last_at"))
    ends = (
        ours.where(F.col("event") == "cancelled")
        .groupBy("subject")
        .agg(F.min("at").alias("stopped_at"))
    )
    until = F.unix_millis(F.coalesce("stopped_at", "last_at"))
    slots = expand(fields["cron"], fields["timezone"], fields["due"].cast("long"), until)
    return (
        ours.where((F.col("event") == "delayed") & (fields["kind"] == "cron"))
        .join(ends, "subject", "left")
        .crossJoin(last)
        .select("queue", F.col("subject").alias("schedule"), F.explode(slots).alias("slot_ms"))
        .withColumn("expected", F.lit(True))
    )


def _fired(ours: DataFrame) -> DataFrame:
    """The events of each slot."""
    fields = F.col("fields")
    return (
        ours.where(F.col("event").isin("fired", "skipped"))
        .withColumn("fires", F.col("event") == "fired")
        .groupBy(
            "queue",
            fields["schedule"].alias("schedule"),
            fields["slot"].cast("long").alias("slot_ms"),
        )
        .agg(
            F.count_if("fires").cast("int").alias("fired"),
            F.min(F.when(F.col("fires"), F.col("at"))).alias("fired_at"),
            F.max(F.when(~F.col("fires"), fields["reason"])).alias("skipped"),
        )
    )


def _verdict() -> Expression:
    fired_once = F.col("fired") == 1
    return (
        F.when(F.col("fired") > 1, "doubled")
        .when(fired_once & ~F.col("expected"), "unexpected")
        .when(fired_once & (F.col("late_ms") > LATE_MS), "late")
        .when(fired_once, "on time")
        .when(F.col("skipped").isNotNull(), "skipped")
        .otherwise("missed")
    )


def _state_key(prefix: str, _queue: str, state: str) -> str:
    return f"{RoutingKeys(prefix).name}:jobs:{state}"


def _open_ids(client: Any, prefix: str, _queue: str) -> Iterator[str]:
    """Ids of jobs that wait, are held by a worker, are due later, or wait for other jobs."""
    keys = RoutingKeys(prefix)
    found = chain(
        list_elements(client, keys.waiting),
        client.sscan_iter(keys.active, count=1000),
        (each for each, _ in client.zscan_iter(keys.delayed, count=1000)),
        (each for each, _ in client.zscan_iter(keys.cron, count=1000)),
        (each for each, _ in client.hscan_iter(keys.held, count=1000)),
    )
    return (each.decode("utf-8", "backslashreplace") for each in found)


FACTS = ProductFacts(
    line=Line.ROUTING,
    prefix=NAMESPACE,
    stream=lambda prefix, _: f"{prefix}:events:stream",
    states=(
        State("waiting", "list"),
        State("delayed", "zset"),
        State("cron", "zset"),
        State("deadletter", "list"),
    ),
    state_key=_state_key,
    ended_states=("deadletter",),
    open_ids=_open_ids,
    encoder=RoutingEncoder(),
    stream_limit=lambda prefix, _: (RoutingKeys(prefix).events_cap, ""),
    tables=(
        ProductTable(ROUTES, lambda history: routes(history.events())),
        ProductTable(CRON_SLOTS, lambda history: cron_slots(history.events())),
    ),
)

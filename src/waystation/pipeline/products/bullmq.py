"""BullMQ: field names of its events, its states, and rows as jobs."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from waystation.bullmq.options import JobOptions, wire_options
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core import codec
from waystation.core.clock import SERVER_TIME
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.events import Product, from_bullmq
from waystation.pipeline.product_keys import BULLMQ_FIELDS, BULLMQ_STATES, streams_of
from waystation.pipeline.products.facts import FieldNames, ProductFacts, State
from waystation.pipeline.tables import (
    COUNTS,
    FLAG,
    INSTANT,
    LONG,
    REAL,
    TEXT,
    Column,
    Layer,
    Table,
)

_HOUR_OF_QUEUE = (
    Column("product", TEXT, "product: bullmq"),
    Column("queue", TEXT, "queue of the product"),
    Column("hour", INSTANT, "start of the hour"),
)

TENANTS = Table(
    name="tenants",
    layer=Layer.GOLD,
    meaning="one row for each queue, tenant and hour: what a tenant was served, of those who take "
    "turns by their groups",
    key=("product", "queue", "hour", "tenant"),
    columns=(
        *_HOUR_OF_QUEUE,
        Column("tenant", TEXT, "parent of the groups, or the group; empty: jobs without a group"),
        Column("started", LONG, "attempts started"),
        Column("service", REAL, "their cost, with what `charge` has corrected in the hour"),
        Column("over_weight", REAL, "the same over the tenant's weight of that time"),
        Column("share", REAL, "share of what the queue has served"),
        Column("wait_mean_ms", REAL, "mean wait of the attempts started, in milliseconds"),
        Column("wait_p50_ms", REAL, "median wait"),
        Column("wait_p95_ms", REAL, "95th percentile of the wait"),
        Column("wait_p99_ms", REAL, "99th percentile of the wait"),
        Column(
            "waiting_s",
            LONG,
            "seconds, in tens, throughout which jobs of it waited for nothing but their turn",
        ),
        Column("wait_histogram", COUNTS, "waits in each bucket, by its least milliseconds"),
    ),
)

TURNS = Table(
    name="turns",
    layer=Layer.GOLD,
    meaning="one row for each queue and hour in which tenants take turns: how far apart any two "
    "came that both had to wait",
    key=("product", "queue", "hour"),
    columns=(
        *_HOUR_OF_QUEUE,
        Column("tenants", LONG, "tenants of which something was started"),
        Column("compared_s", LONG, "seconds, in tens, throughout which at least two waited"),
        Column(
            "deviation",
            REAL,
            "most by which one was served more than another, over their weights, in any stretch of "
            "whole tens of seconds throughout which both waited; null when no two did",
        ),
        Column("allowed", REAL, "the largest cost of each of these two, over its weight"),
        Column("ahead", TEXT, "the one that was served more"),
        Column("behind", TEXT, "the other one"),
        Column(
            "held",
            FLAG,
            "whether no two, of the 50 that waited longest, came further apart than the largest "
            "cost of each; null when no two waited, or when a correction or a job of the hour "
            "before may be the reason",
        ),
    ),
)


class BullmqEncoder:
    """Encodes a row as a job with the queue's next number, or with the row's `job_id`."""

    add = scripts.add
    columns = ("name", "data", "job_id", "delay", "priority", "attempts", "lifo")
    width = 4

    def keys(self, queue: str, prefix: str) -> QueueKeys:
        """The keys of one queue."""
        return QueueKeys(queue, prefix=prefix)

    def leading(self, keys: QueueKeys) -> Sequence[str]:
        """The base of the queue's keys, and the server's time."""
        return keys.base, SERVER_TIME

    def with_setup(self, setup: str) -> "BullmqEncoder":
        """Refuse a setup: a BullMQ queue has none."""
        raise InvalidOption(f"bullmq takes no setup, got {setup}")

    def job(self, keys: QueueKeys, row: Mapping[str, Any]) -> Sequence[str | bytes]:
        """Name, data, options, and the options that the script itself reads."""
        get = row.get
        options = (get("job_id"), get("delay"), get("priority"), get("attempts"), get("lifo"))
        return _name(get("name")), _data(get("data")), *_encoded(*options)


@lru_cache(4096)
def _encoded(
    job_id: str | None,
    delay: int | None,
    priority: int | None,
    attempts: int | None,
    lifo: bool | None,
) -> tuple[bytes, bytes | str]:
    """Options on the wire and those that the script reads; cached, because many rows are alike."""
    named: dict[str, Any] = {
        "job_id": job_id,
        "delay": delay,
        "priority": priority,
        "attempts": attempts,
        "lifo": lifo,
    }
    options = JobOptions(**{name: value for name, value in named.items() if value is not None})
    wants = {"id": job_id, "delay": delay, "priority": priority, "lifo": lifo}
    wanted = {name: value for name, value in wants.items() if value}
    return wire_options(options), codec.encode(wanted) if wanted else ""


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidOption(f"a job needs a name, got {value!r}")
    return value


def _data(value: Any) -> str | bytes:
    """Text must be JSON; anything else is encoded as JSON."""
    if value is None:
        return "{}"
    if not isinstance(value, str):
        return codec.encode(value)
    try:
        codec.decode(value)
    except InvalidInput as error:
        raise InvalidInput(f"data must be JSON, got {value[:80]!r}: {error}") from None
    codec.check_size(len(value.encode()))
    return value


def _state_key(prefix: str, queue: str, state: str) -> str:
    return f"{QueueKeys(queue, prefix=prefix).base}{state}"


FACTS = ProductFacts(
    product=Product.BULLMQ,
    streams=streams_of(Product.BULLMQ),
    field_names=FieldNames(
        job_id="jobId",
        attempt="attemptsMade",
        worker="workerId",
        # The queue is the stream's, the instant is the entry's, and there is one version.
        at="",
        version="",
        product="",
        queue="",
    ),
    read=from_bullmq,
    states=tuple(State(name, kind) for name, kind in BULLMQ_STATES.items()),
    state_key=_state_key,
    item_key=_state_key,
    item_fields=BULLMQ_FIELDS,
    encoder=BullmqEncoder(),
    tables=(TENANTS, TURNS),
    # Draining a queue writes no event, and cleaning it writes only how many.
    removes_silently=True,
    stream_limit=lambda prefix, queue: (QueueKeys(queue, prefix=prefix).meta, "opts.maxLenEvents"),
)

"""The jobs that are in BullMQ's queues now, as an Arrow table."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.core.events import Product
from waystation.core.store import faults
from waystation.core.store.keyspace import is_name
from waystation.pipeline.product_keys import BULLMQ_FIELDS, BULLMQ_NUMBERS, BULLMQ_STATES
from waystation.pipeline.sources.store import Store

pa: Any = pyarrow

PAGE = 1000
DEFAULT = Prefixes()
NOT_FOLLOWED = "not followed"
"""Said of a job under a prefix that the settings do not name any more."""
_KEY = ("product", "queue", "state", "job_id")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _KEY),
        *((name, pa.int64() if name in BULLMQ_NUMBERS else pa.string()) for name in BULLMQ_FIELDS),
        ("_corrupt", pa.string()),
    ]
)


def live_jobs(store: Store, prefixes: Prefixes = DEFAULT) -> Any:
    """One row for each job in any state; one that moves meanwhile may come twice or not at all."""
    with faults.translated():
        pages = [
            pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            for keys in _queues(store, prefixes)
            for state in BULLMQ_STATES
            for rows in _pages(store, keys, prefixes.shown(keys), state)
        ]
    return pa.Table.from_batches(pages, schema=SCHEMA)


def states_of(
    store: Store, subjects: Sequence[tuple[str, str]], prefixes: Prefixes = DEFAULT
) -> list[str]:
    """The states that jobs are in now, given their queues and ids; '' for one that is gone."""
    found: list[str] = []
    for queue, job_id in subjects:
        if (keys := prefixes.keys_of(queue)) is None:
            found.append(NOT_FOLLOWED)
            continue
        asking = store.at(keys.wait).pipeline(transaction=False)
        for state, kind in BULLMQ_STATES.items():
            key = f"{keys.base}{state}"
            _ = asking.lpos(key, job_id) if kind == "list" else asking.zscore(key, job_id)
        with faults.translated():
            places = asking.execute()
        here = (
            name for name, place in zip(BULLMQ_STATES, places, strict=True) if place is not None
        )
        found.append(next(here, ""))
    return found


def _queues(store: Store, prefixes: Prefixes) -> Iterator[QueueKeys]:
    """The queues that have events."""
    client: Any = store.client
    for prefix in prefixes.every:
        head, tail = f"{prefix}:", ":events"
        found = {
            key.decode("utf-8", "replace")[len(head) : -len(tail)]
            for key in client.scan_iter(match=f"{head}*{tail}", count=1000, _type="stream")
        }
        # Others are keys of something else, or queues that ours cannot be called like.
        for name in sorted(filter(is_name, found)):
            yield QueueKeys(name, prefix=prefix)


def _pages(store: Store, keys: QueueKeys, queue: str, state: str) -> Iterator[list[dict[str, Any]]]:
    key = f"{keys.base}{state}"
    client: Any = store.at(key)
    range_of = client.lrange if BULLMQ_STATES[state] == "list" else client.zrange
    first = 0
    while ids := range_of(key, first, first + PAGE - 1):
        first += len(ids)
        # Older versions put markers among the ids.
        named = [each.decode("utf-8", "replace") for each in ids if not each.startswith(b"0:")]
        asking = client.pipeline(transaction=False)
        for each in named:
            asking.hmget(f"{keys.base}{each}", list(BULLMQ_FIELDS.values()))
        hashes = asking.execute()
        yield [_row(queue, state, each, values) for each, values in zip(named, hashes, strict=True)]


def _row(queue: str, state: str, job_id: str, values: Sequence[bytes | None]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "product": Product.BULLMQ.value,
        "queue": queue,
        "state": state,
        "job_id": job_id,
    }
    for name, value in zip(BULLMQ_FIELDS, values, strict=True):
        if value is not None:
            row[name] = (
                _number(value) if name in BULLMQ_NUMBERS else value.decode("utf-8", "replace")
            )
    if all(each is None for each in values):
        row["_corrupt"] = "there is no such job"
    return row


def _number(value: bytes) -> int | None:
    digits = value.removeprefix(b"-")
    return int(value) if digits.isdigit() and len(digits) < 19 else None

"""Made-up tables of a history, written without Spark."""

import datetime as dt
import random
from typing import Any

import msgspec
from deltalake import (
    WriterProperties,
    write_deltalake,  # pyright: ignore[reportUnknownVariableType]
)

from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import FIELD_VALUES, ITEMS, PAYLOADS, Table

START = dt.datetime(2026, 3, 1, 20, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
REASONS = ("TimeoutError: 30 s", "ValueError: bad order", None)


def store(root: str, table: Table, rows: list[dict[str, Any]], batch: int) -> None:
    """Commit rows to a table as one batch."""
    path = table.path(root)
    with PartWriter.of(root, table) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(table.schema)))
    batch_id = BatchId("test", batch)
    delta.commit(path, table.schema, writer.parts, batch_id, partitions=table.partitions)


def write_in_groups(path: str, rows: Any, size: int) -> None:
    """A table of one file whose groups have so many rows."""
    properties = WriterProperties(max_row_group_size=size)
    write_deltalake(path, rows, writer_properties=properties)


def job(dice: random.Random, number: int) -> dict[str, Any]:
    """A job as a brute-force search would want it."""
    added = START + dt.timedelta(milliseconds=dice.randrange(4 * 86_400_000))
    state = dice.choice(("completed", "completed", "failed", "removed"))
    reason = dice.choice(REASONS) if state == "failed" else None
    data = {
        "tenant": dice.choice(("acme", "it's", "Ünï", "zeta")),
        "order": {"id": dice.randrange(30), "lines": [{"sku": dice.choice("abc")}]},
        "vip": dice.random() < 0.2,
    }
    if dice.random() < 0.1:
        del data["tenant"]
    return {
        "queue": dice.choice(("mail", "pay")),
        "job_id": str(number) if dice.random() < 0.9 else f"own-{number}",
        "name": dice.choice(("send", "charge")),
        "state": state,
        "added_at": added,
        "ended_at": added + dt.timedelta(seconds=dice.randrange(1, 90_000)),
        "reason": reason,
        "fingerprint": None if reason is None else f"f{REASONS.index(reason)}",
        "data": data,
        "result": {"ok": number} if state == "completed" else None,
        "gone": dice.random() < 0.05,
    }


def keep(root: str, jobs: list[dict[str, Any]], batches: int = 3, first: int = 0) -> None:
    """Write jobs to the tables, in several commits that are numbered from the first."""
    size = -(-len(jobs) // batches)
    for batch in range(first, first + batches):
        some = jobs[(batch - first) * size : (batch - first + 1) * size]
        store(root, ITEMS, [_item(each) for each in some], batch)
        payloads = [row for each in some for row in _payloads(each)]
        store(root, PAYLOADS, payloads, batch)
        values = [row for each in some for row in _values(each)]
        store(root, FIELD_VALUES, values, batch)


def _item(job: dict[str, Any]) -> dict[str, Any]:
    return {
        "product": job.get("product", "bullmq"),
        **{name: job[name] for name in ("queue", "job_id", "name", "state", "added_at")},
        **{name: job[name] for name in ("ended_at", "reason", "fingerprint")},
        "attempts": 1,
        "retries": 0,
        "stalls": 0,
        "duplicates": 0,
        "last_recorded_at": job["ended_at"],
        "date": job["added_at"].date(),
    }


def _payloads(job: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for the birth with the data, and one for the end with the result."""
    shared = {
        "product": job.get("product", "bullmq"),
        "queue": job["queue"],
        "job_id": job["job_id"],
    }
    first, last = job["added_at"], job["ended_at"]
    born = {**shared, "read_at": first, "added_at": first, "ended": False, "date": first.date()}
    ended = {**shared, "read_at": last, "added_at": first, "ended": True, "date": last.date()}
    if job["gone"]:
        return [{**born, "left_out": "it was removed before it could be read"}]
    data = msgspec.json.encode(job["data"]).decode()
    result = None if job["result"] is None else msgspec.json.encode(job["result"]).decode()
    whole = {"name": job["name"], "data": data, "options": "{}", "fields": _declared(job)}
    whole["form"] = job.get("form", "plain")
    # What the second read has left out, which need not be the data.
    left_out = {"left_out": job["left_out"]} if job.get("left_out") else {}
    if job.get("cleaned"):
        return [{**born, **whole}, {**ended, "left_out": "it was removed before it could be read"}]
    return [{**born, **whole}, {**ended, **whole, "result": result, **left_out}]


def _declared(job: dict[str, Any]) -> list[tuple[str, str]]:
    tenant = job["data"].get("tenant")
    return [("order", str(job["data"]["order"]["id"])), *([("tenant", tenant)] if tenant else [])]


def _values(job: dict[str, Any]) -> list[dict[str, Any]]:
    if job["gone"]:
        return []
    at = job["added_at"]
    shared = {
        "product": job.get("product", "bullmq"),
        "queue": job["queue"],
        "job_id": job["job_id"],
    }
    return [
        {**shared, "field": name, "value": value, "read_at": at, "date": at.date()}
        for name, value in _declared(job)
    ]

"""Plan of a redrive: which jobs of the history are added again, and which cannot be."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from waystation.bullmq.redis.prefixes import Prefixes
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.events import Product
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare
from waystation.pipeline.payloads.rules import Sealer
from waystation.pipeline.tables import Form

_DIGITS = 16
"""Digits that tell the jobs of one redrive apart."""
_NOT_AGAIN = (
    "jobId",
    "delay",
    "timestamp",
    "parent",
    "repeat",
    "repeatJobKey",
    "prevMillis",
    "de",
    "deduplication",
    "debounce",
)
"""Options that belong to the first life of a job."""
VISIBLE = {"removeOnFail": False, "removeOnComplete": {"age": 86_400}}
"""Options by which the driver sees how a job ended, whatever the workers remove."""


class Planned(msgspec.Struct, frozen=True):
    """A job that will be added again."""

    queue: str
    job_id: str
    """Its id in the history."""
    id: str
    """Its id in the queue: the same however often the redrive is started."""
    name: str
    data: str
    options: str
    priority: int

    @property
    def key(self) -> str:
        """Its key in the batch, by which it is added once."""
        return self.id


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a redrive."""

    name: str
    jobs: Sequence[Planned]
    impossible: Mapping[str, int]
    """Jobs that cannot be added again, by reason."""


def name_of(selection: Selection, to: str = "") -> str:
    """The name of a redrive that was given none: the same for the same selection.

    Whatever times it selects: 24 hours ago is another instant at every start.
    """
    timeless = msgspec.structs.replace(selection, since=None, until=None)
    raw = msgspec.json.encode([timeless, to])
    return hashlib.sha256(raw).hexdigest()[:12]


def plan(
    engine: Engine,
    selection: Selection,
    *,
    name: str,
    sealer: Sealer,
    declared: Sequence[str] = (),
    most: int | None = None,
) -> Plan:
    """Look up the jobs of a selection, the oldest first; failed ones unless it names a state."""
    if selection.is_empty:
        raise InvalidInput("wanted an option that chooses jobs, got none")
    if not name or not name.replace("-", "").isalnum() or len(name) > 40:
        raise InvalidOption(f"name must be up to 40 letters, digits and hyphens, got {name!r}")
    chosen = selection if selection.state else msgspec.structs.replace(selection, state="failed")
    prepare(engine, chosen)
    found = engine.ask(jobs_sql(chosen, declared))
    jobs: list[Planned] = []
    impossible: Counter[str] = Counter()
    own = re.compile(f"redrive-{name}-[0-9a-f]{{{_DIGITS}}}")
    for values in reversed(found.rows):
        row = dict(zip(found.names, values, strict=True))
        if own.fullmatch(row["job_id"]):
            # What this redrive has added is no reason to add it again.
            continue
        planned = _planned(row, name, sealer)
        if isinstance(planned, str):
            impossible[planned] += 1
        elif most is None or len(jobs) < most:
            jobs.append(planned)
    return Plan(name=name, jobs=jobs, impossible=dict(impossible))


def sandboxed(plan: Plan, prefixes: Prefixes, to: str = "") -> Plan:
    """The same jobs for a trial: each is tried once, and stays when it has ended.

    In the sandbox queues have their own names, whatever prefix they are under.
    """
    names = {each: _own_name(to or each, prefixes) for each in {job.queue for job in plan.jobs}}
    jobs = [_tried_once(each, names[each.queue]) for each in plan.jobs]
    return msgspec.structs.replace(plan, jobs=jobs)


def _own_name(queue: str, prefixes: Prefixes) -> str:
    place = prefixes.place_of(queue)
    return place[1] if place else queue


def _tried_once(job: Planned, queue: str) -> Planned:
    given = msgspec.json.decode(job.options, type=dict[str, Any])
    options = msgspec.json.encode({**given, "removeOnComplete": False, "attempts": 1}).decode()
    return msgspec.structs.replace(job, queue=queue, options=options)


def _planned(row: Mapping[str, Any], name: str, sealer: Sealer) -> Planned | str:
    if row["product"] != Product.BULLMQ.value:
        return f"jobs of {row['product']} are not redriven from the history"
    if row["data"] is None:
        return f"no data: {row['left_out'] or 'nothing was kept'}"
    if row["form"] == Form.CHANGED:
        return "a rule has changed its data, name or options"
    job_name, data, options = row["name"] or "unnamed", row["data"], row["options"] or "{}"
    try:
        if row["form"] == Form.ENCRYPTED:
            data, options = sealer.opened(data), sealer.opened(options)
            job_name = sealer.opened_text(job_name)
        given = msgspec.json.decode(options, type=dict[str, Any])
    except InvalidInput as error:
        return str(error)
    except msgspec.MsgspecError:
        return "its options are no JSON"
    except RecursionError:
        return "its data has too many levels"
    kept = {key: value for key, value in given.items() if key not in _NOT_AGAIN}
    seen = VISIBLE if kept.get("removeOnComplete") is not False else {"removeOnFail": False}
    return Planned(
        queue=row["queue"],
        job_id=row["job_id"],
        id=f"redrive-{name}-{_digest(row)}",
        name=job_name,
        data=data,
        options=msgspec.json.encode({**kept, **seen}).decode(),
        priority=row["priority"] or 0,
    )


def _digest(row: Mapping[str, Any]) -> str:
    added = row["added_at"] and int(row["added_at"].timestamp() * 1000)
    raw = msgspec.json.encode([row["queue"], row["job_id"], added])
    return hashlib.sha256(raw).hexdigest()[:_DIGITS]

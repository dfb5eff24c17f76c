"""Selections of jobs in the history: by id, field, name, error, state, time and data."""

import datetime as dt
from collections.abc import Mapping, Sequence

import msgspec

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.active_files import Wanted
from waystation.pipeline.ask.engine import Engine, literal, quoted
from waystation.pipeline.payloads.paths import JsonPath
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.tables import FIELD_VALUES, ITEMS, PAYLOADS, Table

LATE = dt.timedelta(days=1)
"""How much earlier than `added_at` the day of a row may begin."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that are wanted; all conditions hold together."""

    ids: Sequence[str] = ()
    line: str = ""
    queue: str = ""
    name: str = ""
    state: str = ""
    error: str = ""
    """A part of the error message."""
    failure: str = ""
    """Fingerprint of a failure, as the table `failures` has it."""
    fields: Mapping[str, str] = {}
    """Values of declared fields."""
    paths: Mapping[str, str] = {}
    """Paths in the data, and the values there as text."""
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    """When the jobs were added."""
    where: str = ""
    """A condition in SQL over the columns of the answer."""

    def __post_init__(self) -> None:
        for path in self.paths:
            JsonPath.parse(path)
        if self.since and self.until and self.since >= self.until:
            raise InvalidInput(f"since must be before until, got {self.since} and {self.until}")

    @property
    def is_empty(self) -> bool:
        """Whether it selects every job."""
        return self == Selection()


MERGED = (
    "data",
    "options",
    "priority",
    "delay_ms",
    "parent",
    "group",
    "deduplication",
    "scheduler",
    "trace",
    "result",
    "progress",
    "stacktrace",
    "logs",
    "fields",
    "left_out",
)
"""Columns of a job that come from `payloads`: of each the newest that is known."""

_ITEMS = (
    "line",
    "queue",
    "subject",
    "name",
    "state",
    "added_at",
    "started_at",
    "ended_at",
    "attempts",
    "retries",
    "stalls",
    "wait_ms",
    "run_ms",
    "total_ms",
    "reason",
    "fingerprint",
)


def prepare(engine: Engine, selection: Selection) -> None:
    """Add the tables that the selection needs, without files that cannot hold its rows."""
    engine.add_table(ITEMS, name="ended_items", wanted=_wanted(ITEMS, selection))
    engine.add_table(PAYLOADS, wanted=_wanted(PAYLOADS, selection))
    if selection.fields or FIELD_VALUES.name in selection.where:
        engine.add_table(FIELD_VALUES, wanted=_wanted(FIELD_VALUES, selection))
    engine.add_table(STEPS)
    engine.add_open_work()


def jobs_sql(selection: Selection, declared: Sequence[str] = ()) -> str:
    """The query for the jobs of a selection, each with what it was."""
    newest = ", ".join(
        f'arg_max(p."{name}", p.read_at) filter (p."{name}" is not null) as "{name}"'
        for name in MERGED
        if name != "left_out"
    )
    items = ", ".join(f"i.{name}" for name in _ITEMS)
    columns = "".join(f""", "fields"[{quoted(name)}] as "{name}\"""" for name in declared)
    # A row of `payloads` belongs to the life of the job in which it was read.
    found = f"""
        with i as (select * from items where {_all(_item_conditions(selection))}),
        p as (select * from payloads where {_all(_payload_conditions(selection))}),
        found as (
            select {items}, {newest},
                   case when count(p.read_at) = 0 then 'nothing was kept'
                        else arg_max(p.left_out, p.read_at) filter (p.left_out is not null)
                   end as left_out
            from i left join p on i.line = p.line and i.queue = p.queue
                 and i.subject = p.subject and p.read_at <= i.last_told_at
                 and p.read_at >= coalesce(i.added_at, timestamptz '1970-01-01')
            group by {items}
        )
        select *{columns} from found"""
    late = [f"data ->> {quoted(path)} = {quoted(value)}" for path, value in selection.paths.items()]
    wheres = [*late, *([f"({selection.where}\n)"] if selection.where else [])]
    return f"select * from ({found}) where {_all(wheres)} order by added_at desc nulls last"


def _item_conditions(wanted: Selection) -> list[str]:
    conditions = _shared_conditions(wanted)
    if wanted.name:
        conditions.append(f"name = {quoted(wanted.name)}")
    if wanted.state:
        conditions.append(f"state = {quoted(wanted.state)}")
    if wanted.error:
        conditions.append(f"contains(lower(reason), lower({quoted(wanted.error)}))")
    if wanted.failure:
        conditions.append(f"fingerprint = {quoted(wanted.failure)}")
    if wanted.since:
        day = (wanted.since - LATE).date()
        conditions += [f"date >= date '{day}'", f"added_at >= {literal(wanted.since)}"]
    if wanted.until:
        conditions += [f"added_at < {literal(wanted.until)}"]
    for field, value in wanted.fields.items():
        conditions.append(
            "(line, queue, subject) in (select (line, queue, subject) from field_values "
            f"where field = {quoted(field)} and value = {quoted(value)})"
        )
    return conditions


def _payload_conditions(wanted: Selection) -> list[str]:
    conditions = _shared_conditions(wanted)
    if wanted.since:
        conditions.append(f"date >= date '{(wanted.since - LATE).date()}'")
    if len(wanted.ids) != 1:
        conditions.append("(line, queue, subject) in (select (line, queue, subject) from i)")
    return conditions


def _shared_conditions(wanted: Selection) -> list[str]:
    conditions: list[str] = []
    if wanted.line:
        conditions.append(f"line = {quoted(wanted.line)}")
    if wanted.queue:
        conditions.append(f"queue = {quoted(wanted.queue)}")
    if wanted.ids:
        listed = ", ".join(map(quoted, wanted.ids))
        conditions.append(f"subject in ({listed})")
    return conditions


def _wanted(table: Table, chosen: Selection) -> Wanted:
    texts: dict[str, Sequence[str]] = {}
    if chosen.ids:
        texts["subject"] = chosen.ids
    if chosen.queue:
        texts["queue"] = [chosen.queue]
    if table is FIELD_VALUES and chosen.fields:
        texts["value"] = list(chosen.fields.values())
    return Wanted(texts, chosen.since and (chosen.since - LATE).date())


def _all(conditions: Sequence[str]) -> str:
    return " and ".join(conditions) or "true"

"""Selections of jobs in the history: by id, field, name, error, state, time and data."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.active_files import RowFilter
from waystation.pipeline.ask.engine import Engine, literal, quoted
from waystation.pipeline.payloads.paths import ANYWHERE, EVERY, JsonPath
from waystation.pipeline.tables import FIELD_VALUES, ITEMS, PAYLOADS

LATE = dt.timedelta(days=1)
"""How much earlier than `added_at` the day of a row may begin."""
MOST_LISTED = 200
"""Jobs that are named one by one where their rows are looked for."""

# What is noted between two steps of a search.
OWNERS = "jobs_with_these_values"
CHOSEN = "chosen_items"
MATCHING = "jobs_with_this_data"
THEIR_PAYLOADS = "their_payloads"

NEWEST_FIRST = "order by added_at desc nulls last"
_BEGINNING = "timestamptz '1970-01-01'"
_OF_THIS_LIFE = (
    "i.product = p.product and i.queue = p.queue and i.job_id = p.job_id "
    f"and p.read_at >= coalesce(i.added_at, {_BEGINNING}) and p.read_at <= i.last_recorded_at"
)


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that are wanted; all conditions hold together."""

    ids: Sequence[str] = ()
    product: str = ""
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
    "form",
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
"""Columns of a job that come from `payloads`: of each the newest that is known.

What was left out is said of the row that the data comes from.
"""
_JSON = ("data", "options", "result", "progress", "stacktrace")
"""Those of them that are JSON, unless somebody has written something else."""

_ITEMS = (
    "product",
    "queue",
    "job_id",
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


def prepare(engine: Engine, selection: Selection, most: int | None = None) -> None:
    """Look up the items of the selection, or so many of the newest, and add what is known of them.

    Step by step, because what one table says spares reading the next one.
    """
    if selection.fields:
        _look_up_owners(engine, selection)
    _look_up_items(engine, selection)
    if most is not None and not (selection.paths or selection.where):
        engine.note(CHOSEN, f"from {CHOSEN} {NEWEST_FIRST} limit {most}")
    chosen = _chosen(engine)
    engine.add_table(PAYLOADS, wanted=chosen.wanted)
    engine.view(THEIR_PAYLOADS, chosen.payloads_sql)
    if selection.paths:
        _keep_matching(engine, selection)
        engine.view(THEIR_PAYLOADS, _chosen(engine).payloads_sql)
    if FIELD_VALUES.name in selection.where:
        engine.add_table(FIELD_VALUES)


def _look_up_owners(engine: Engine, selection: Selection) -> None:
    """Note the jobs that have the values of the declared fields."""
    values = list(selection.fields.values())
    engine.add_table(
        FIELD_VALUES, name="values_of_all", wanted=_wanted(selection, {"value": values})
    )
    pairs = [
        f"(field = {quoted(field)} and value = {quoted(value)})"
        for field, value in selection.fields.items()
    ]
    conditions = [
        *_shared_conditions(selection),
        _among("value", values),
        f"({' or '.join(pairs)})",
    ]
    engine.note(
        OWNERS,
        "select product, queue, job_id, field, read_at from values_of_all "
        f"where {_all(conditions)}",
    )


def _look_up_items(engine: Engine, selection: Selection) -> None:
    """Note the rows of `items` that are wanted, but for conditions on their data."""
    conditions = _item_conditions(selection)
    texts: dict[str, Sequence[str]] = {}
    if selection.ids:
        texts["job_id"] = selection.ids
    if selection.fields:
        conditions.append(
            f"(product, queue, job_id) in (select (product, queue, job_id) from {OWNERS})"
        )
        owners = _subjects(engine, OWNERS)
        if owners is not None:
            texts["job_id"] = owners
            conditions.append(_among("job_id", owners))
    until = selection.until and _day(selection.until)
    engine.add_table(ITEMS, name="ended_items", wanted=_wanted(selection, texts, until))
    engine.add_open_work()
    columns = ", ".join((*_ITEMS, "last_recorded_at"))
    engine.note(CHOSEN, f"select {columns} from items where {_all(conditions)}")
    for field in selection.fields:
        # The value belongs to the life of the job in which it was read.
        engine.note(
            CHOSEN,
            f"select i.* from {CHOSEN} i semi join {OWNERS} p on {_OF_THIS_LIFE} "
            f"and p.field = {quoted(field)}",
        )


class _Chosen(msgspec.Struct, frozen=True):
    """What is known of the items that were noted, before their payloads are read."""

    subjects: Sequence[str] | None
    """Their ids; None when there are too many to name them."""
    lives: Sequence[tuple[dt.datetime, dt.datetime]]
    """When each of them was there; one that spans all of them when there are too many."""

    @property
    def wanted(self) -> RowFilter:
        """The files in which their payloads can be."""
        if not self.lives:
            return RowFilter({"job_id": ()})
        texts = {} if self.subjects is None else {"job_id": self.subjects}
        since, until = min(born for born, _ in self.lives), max(ended for _, ended in self.lives)
        return RowFilter(texts, _day(since), _day(until))

    @property
    def payloads_sql(self) -> str:
        """The query for their payloads, and perhaps for some others."""
        spans = [
            f"read_at between {literal(born)} and {literal(ended)}" for born, ended in self.lives
        ]
        conditions = [f"({' or '.join(spans) or 'false'})"]
        if self.subjects is None:
            conditions.append(
                f"(product, queue, job_id) in (select (product, queue, job_id) from {CHOSEN})"
            )
        elif self.subjects:
            conditions.append(_among("job_id", self.subjects))
        return f"select * from payloads where {_all(conditions)}"


def _chosen(engine: Engine) -> _Chosen:
    subjects = _subjects(engine, CHOSEN)
    span = f"min(coalesce(added_at, {_BEGINNING})), max(last_recorded_at)"
    query = f"select {span} from {CHOSEN}"
    if subjects is not None:
        query += " group by product, queue, job_id"
    lives = [(born, ended) for born, ended in engine.select(query).rows if ended is not None]
    return _Chosen(subjects, lives)


def _keep_matching(engine: Engine, selection: Selection) -> None:
    """Forget the items of which no payload has the values that are wanted in the data."""
    engine.note(
        MATCHING,
        f"select distinct product, queue, job_id from {THEIR_PAYLOADS} "
        f"where {_all(_path_conditions(selection))}",
    )
    engine.note(CHOSEN, f"from {CHOSEN} semi join {MATCHING} using (product, queue, job_id)")


def _subjects(engine: Engine, noted: str) -> Sequence[str] | None:
    """The ids of the jobs that were noted; None when there are too many to name them."""
    found = engine.select(f"select distinct job_id from {noted} limit {MOST_LISTED + 1}").rows
    return None if len(found) > MOST_LISTED else sorted(row[0] for row in found)


def jobs_sql(selection: Selection, declared: Sequence[str] = ()) -> str:
    """The query for the jobs of a selection that was prepared, each with what it was."""
    newest = ", ".join(
        f'arg_max(p."{name}", p.read_at) filter (p."{_known_by(name)}" is not null) as "{name}"'
        for name in MERGED
        if name != "left_out"
    )
    items = ", ".join(f"i.{name}" for name in _ITEMS)
    columns = "".join(f""", "fields"[{quoted(name)}] as "{name}\"""" for name in declared)
    # A row of `payloads` belongs to the life of the job in which it was read.
    found = f"""
        with found as (
            select {items}, {newest},
                   case when count(p.read_at) = 0 then 'nothing was kept'
                        when count(p.data) > 0
                        then arg_max_null(p.left_out, p.read_at) filter (p.data is not null)
                        else arg_max(p.left_out, p.read_at) filter (p.left_out is not null)
                   end as left_out
            from {CHOSEN} i
            left join {THEIR_PAYLOADS} p on {_OF_THIS_LIFE}
            group by {items}
        )
        select *{columns} from found"""
    is_theirs = _all(_path_conditions(selection))
    if not selection.where:
        return f"select * from ({found}) where {is_theirs} {NEWEST_FIRST}"
    # Data that no reader of JSON takes is a text to the condition, and shown as it is.
    readable = ", ".join(
        f"if({name} is null or json_valid({name}), {name}, to_json({name})::varchar) as {name}"
        for name in _JSON
    )
    return f"""
        select "(whole)".* from (
            select * replace ({readable}), kept as "(whole)" from ({found}) as kept
            where {is_theirs}
        ) where ({selection.where}
        ) {NEWEST_FIRST}"""


def _known_by(name: str) -> str:
    """The column by which the row is chosen that a column is taken from."""
    return "data" if name == "form" else name


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
        day = _day_before(wanted.since)
        conditions += [f"date >= date '{day}'", f"added_at >= {literal(wanted.since)}"]
    if wanted.until:
        conditions += [f"added_at < {literal(wanted.until)}"]
    return conditions


def _path_conditions(wanted: Selection) -> list[str]:
    return [_has_value(JsonPath.parse(path), value) for path, value in wanted.paths.items()]


def _has_value(path: JsonPath, value: str) -> str:
    """Condition: the data has a value at a path, as rules and declared fields read it."""
    is_plain = EVERY not in path.steps and ANYWHERE not in path.steps
    ways: list[str] = []
    for written in _in_words_of_the_engine(path.steps):
        # What is no JSON has no values.
        found = f"try(json_extract_string(data, {quoted(written)}))"
        wanted = quoted(value)
        ways.append(f"{found} = {wanted}" if is_plain else f"list_contains({found}, {wanted})")
    return f"({' or '.join(ways)})"


def _in_words_of_the_engine(steps: Sequence[str | int], before: str = "$") -> Iterator[str]:
    """The ways to write a path there: all values of an object and of an array are two."""
    if not steps:
        yield before
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        yield from _in_words_of_the_engine(rest, f"{before}[{step}]")
    elif step == EVERY:
        for each in (".*", "[*]"):
            yield from _in_words_of_the_engine(rest, before.removesuffix(".") + each)
    elif step == ANYWHERE:
        yield from _in_words_of_the_engine(rest, f"{before}..")
    elif '"' in step:
        raise InvalidInput(f"wanted a name without quotes in a path, got {step!r}")
    else:
        dot = "" if before.endswith("..") else "."
        yield from _in_words_of_the_engine(rest, f'{before}{dot}"{step}"')


def _shared_conditions(wanted: Selection) -> list[str]:
    conditions: list[str] = []
    if wanted.product:
        conditions.append(f"product = {quoted(wanted.product)}")
    if wanted.queue:
        conditions.append(f"queue = {quoted(wanted.queue)}")
    if wanted.ids:
        conditions.append(_among("job_id", wanted.ids))
    return conditions


def _wanted(
    chosen: Selection, texts: Mapping[str, Sequence[str]], until: dt.date | None = None
) -> RowFilter:
    if chosen.queue:
        texts = {**texts, "queue": [chosen.queue]}
    return RowFilter(texts, chosen.since and _day_before(chosen.since), until)


def _among(column: str, texts: Sequence[str]) -> str:
    return f"{column} in ({', '.join(map(quoted, texts))})" if texts else "false"


def _day(at: dt.datetime) -> dt.date:
    return at.astimezone(dt.UTC).date()


def _day_before(at: dt.datetime) -> dt.date:
    """The day of an instant before which nothing belongs to it; there is none before the first."""
    day = _day(at)
    return max(day, dt.date.min + LATE) - LATE


def _all(conditions: Sequence[str]) -> str:
    return " and ".join(conditions) or "true"

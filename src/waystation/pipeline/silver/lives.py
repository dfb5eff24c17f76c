"""Lives: the steps of each job or file, folded into its attempts, its item and its failures.

One plan with one shuffle. The steps that were known before a batch are folded twice, without the
new ones and with them; what differs is what the batch has changed. So there is no rule of its own
for a job that ended before and goes on, nor for an attempt that was stored before.
"""

from collections.abc import Callable
from typing import Any, cast

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from waystation.core import fingerprints as core
from waystation.pipeline.silver.moves import ENDED, ENDS, OUTCOMES, READY, STATES, STEPS
from waystation.pipeline.silver.steps import IS_CLAIM, MARKED, SUBJECT, context
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.sql import chosen, quoted, texts
from waystation.pipeline.tables import (
    ATTEMPTS,
    FAILED_ITEMS,
    FLAG,
    ITEMS,
    TEXT,
    Column,
    Layer,
    Table,
)

FOLDED = (ATTEMPTS, ITEMS, FAILED_ITEMS)
"""The tables that lives are folded into."""
NEW_STEPS = msgspec.structs.replace(
    STEPS,
    name="steps",
    columns=(
        *STEPS.columns,
        Column("earlier", TEXT, "event of the step before it, if that was in the same hour"),
        Column("repeated", FLAG, "whether a failure was recorded before in the same instant"),
        Column("doubled", FLAG, "whether the step before is of the same entry"),
    ),
)
"""Steps with what those before them say, so that each can be counted on its own."""
RETURNED = Table(
    name="returned",
    layer=Layer.SILVER,
    meaning="subjects with a new step of which nothing is known",
    key=SUBJECT,
    columns=tuple(each for each in STEPS.columns if each.name in (*SUBJECT, "recorded_at", "seq")),
)
"""Subjects that have returned, each with its first new step."""

# The most selective column comes first, because sorting compares it first.
_SUBJECT = ("job_id", "queue", "product")
_WHOLE = f"partition by {', '.join(_SUBJECT)}"
_TURN = f"{_WHOLE}, sign order by recorded_at, seq"
_SO_FAR = f"{_TURN} rows between unbounded preceding and current row"
_ALL = f"{_TURN} rows between unbounded preceding and unbounded following"


def _struct(table: Table, **given: str) -> str:
    """A row of a table, from columns of the same names or from what is given."""
    parts = (f"{given.get(name, f'`{name}`')} as `{name}`" for name in table.names)
    return f"struct({', '.join(parts)})"


def _mark(value: str, where: str, *, until: str) -> str:
    """A value that other steps may read; an empty one where their search must stop."""
    return f"case when {where} or {until} then struct(case when not ({until}) then {value} end) end"


def _literal(text: str | None) -> str:
    return "cast(null as string)" if text is None else quoted(text)


_ANOTHER = f"({IS_CLAIM} or birth)"
_SAID = "struct(reason, error_class, fingerprint)"
"""An error message, and what it is known by."""
_NOTHING_SAID = (
    f"struct('' as reason, {_literal(core.error_class(''))} as error_class, "
    f"{_literal(core.fingerprint(''))} as fingerprint)"
)

# A job_id has returned when nothing is known of it and its first step is no birth: it has ended,
# or nobody has heard of it.
_SEEN = (
    f"max(is_new) over ({_WHOLE}) as touched",
    f"min(is_new) over ({_WHOLE}) as is_unknown",
    f"first_value(birth) over ({_WHOLE} order by recorded_at, seq) as is_born",
)
_SIGNED = (
    "explode(case when touched and not is_new then array(1, -1) else array(1) end) as sign",
    "can_return and is_unknown and not is_born as returned",
    f"{IS_CLAIM} as is_claim",
    *MARKED,
)
_NUMBERED = (
    f"cast(sum(cast(birth as int)) over ({_SO_FAR}) as bigint) as run_no",
    f"cast(sum(cast(birth as int)) over ({_ALL}) as bigint) as newest",
    f"cast(sum(cast(is_claim as int)) over ({_SO_FAR}) as bigint) as taken",
    f"{_mark('`at`', f'event in {texts(READY)}', until='is_claim')} as ready_mark",
    f"{_mark('`at`', 'true', until=_ANOTHER)} as end_mark",
    f"{_mark('event', f'event in {texts(OUTCOMES)}', until=_ANOTHER)} as ending_mark",
    f"{_mark(_SAID, 'reason is not null', until=_ANOTHER)} as said_mark",
    f"{_mark('_corrupt', '_corrupt is not null', until=_ANOTHER)} as odd_mark",
)


def _neighbour(of: str, mark: str) -> str:
    # A frame to the end would be read again for every step; lag and lead are not.
    return f"({of}({mark}) ignore nulls over ({_TURN})).col1"


_NEIGHBOURS = (
    *(f"`{name}`" for name in STEPS.names),
    *("is_new", "touched", "returned", "sign", "run_no", "newest", "is_claim"),
    f"cast(taken - coalesce(last_value(case when birth then taken end) ignore nulls "
    f"over ({_SO_FAR}), 0) as int) as attempt",
    f"{_neighbour('lag', 'ready_mark')} as ready_at",
    f"{_neighbour('lead', 'end_mark')} as ended_at",
    f"{_neighbour('lead', 'ending_mark')} as ending",
    f"case when reason is not null then {_SAID} end as said_here",
    f"{_neighbour('lead', 'said_mark')} as said_next",
    f"coalesce(_corrupt, {_neighbour('lead', 'odd_mark')}) as odd_here",
    *context(_TURN),
)
# BullMQ of Node names no worker and writes no event for a failed attempt, only a new wait.
_TIMED = (
    "unix_millis(`at`) - unix_millis(ready_at) as wait",
    "unix_millis(ended_at) - unix_millis(`at`) as run",
    f"""case when is_claim then coalesce(
        {chosen("ending", OUTCOMES)},
        case when ended_at is null then 'open'
             when worker is null then 'retried'
             else 'returned' end) end as outcome""",
    f"{chosen('event', STATES)} as state",
    "struct(recorded_at, seq) as place",
    # A retry and the wait after it share a millisecond: the wait counts.
    "struct(recorded_at, case when event in ('retry', 'stalled') then -1 else seq end) as turn",
)
# A clock that was set back must not make a wait negative.
_TRIED = (
    "case when is_claim and wait >= 0 then wait end as wait_ms",
    "case when is_claim and run >= 0 then run end as run_ms",
    f"case when outcome in ('failed', 'retried') "
    f"then coalesce(said_here, said_next, {_NOTHING_SAID}) end as said",
)
_ATTEMPT = _struct(
    ATTEMPTS,
    started_at="`at`",
    error_class="said.error_class",
    fingerprint="said.fingerprint",
    reason="said.reason",
    _corrupt="""coalesce(odd_here,
        case when wait < 0 then 'it was started before it was ready' end,
        case when run < 0 then 'it ended before it was started' end)""",
    date="to_date(`at`)",
)
_FOLDED = (
    "any_value(touched) as touched",
    "any_value(returned) as returned",
    "any_value(newest) as newest",
    "min_by(name, case when name is not null then place end) as name",
    "min_by(`at`, case when birth then place end) as added_at",
    "min(`at`) as first_at",
    "min(case when is_claim then `at` end) as started_at",
    "max_by(struct(state, `at`), turn) as last",
    "max_by(struct(state, `at`), case when event not in ('removed', 'cancelled') then turn end)"
    " as last_but_removal",
    "cast(count_if(is_claim) as int) as attempts",
    "cast(count_if(event = 'stalled') as int) as stalls",
    "cast(greatest(0, count_if(event = 'completed') - 1 - count_if(again)) as int) as duplicates",
    "max(recorded_at) as last_recorded_at",
    "min_by(_corrupt, case when _corrupt is not null then place end) as odd",
    "cast(sum(wait_ms) as bigint) as wait_ms",
    "cast(sum(run_ms) as bigint) as run_ms",
    "cast(count_if(outcome = 'retried') as int) as retries",
    "max_by(said, case when said is not null then attempt end) as said",
    "min(case when is_new then place end) as heard",
    f"collect_list(case when is_claim then {_ATTEMPT} end) as tried",
    f"collect_list({_struct(STEPS)}) as steps",
    f"collect_list(case when is_new and not returned then {_struct(NEW_STEPS)} end) as new_steps",
)
# A job removed after its end keeps the state it ended in.
_JUDGED = (
    f"case when last_but_removal.state in {texts(ENDS)} then last_but_removal else last end"
    " as final",
    "to_date(coalesce(added_at, first_at)) as `date`",
    "filter(tried, each -> each.fingerprint is not null) as failures",
)
# An id that was used again was removed, with or without an event.
_ENDED = (
    f"case when final.state in {texts(ENDED)} then final.`at` end as ended_at",
    f"case when run_no = newest or final.state in {texts(ENDED)} then final.state "
    "else 'removed' end as state",
    "array_max(transform(tried, each -> each.attempt)) as last_attempt",
    "array_max(transform(filter(tried, each -> each.outcome = 'completed'),"
    " each -> each.started_at)) as good_at",
    "transform(array_distinct(transform(failures, each -> each.fingerprint)),"
    " kind -> filter(failures, each -> each.fingerprint = kind)) as kinds",
)
_IS_RETRIED = "each -> each.outcome = 'retried' or each.attempt < last_attempt"
_KIND = _struct(
    FAILED_ITEMS,
    fingerprint="kind[0].fingerprint",
    error_class="array_min(transform(kind, each -> each.error_class))",
    reason="array_min(transform(kind, each -> each.reason))",
    first_at="array_min(transform(kind, each -> each.started_at))",
    last_at="array_max(transform(kind, each -> each.started_at))",
    failed="cast(size(kind) as bigint)",
    retried=f"cast(size(filter(kind, {_IS_RETRIED})) as bigint)",
    recovered=f"exists(kind, {_IS_RETRIED}) and "
    "coalesce(good_at > array_min(transform(kind, each -> each.started_at)), false)",
)
_TOTAL = "(unix_millis(ended_at) - unix_millis(added_at))"
_ITEM = _struct(
    ITEMS,
    total_ms=f"case when {_TOTAL} >= 0 then {_TOTAL} end",
    reason="said.reason",
    fingerprint="said.fingerprint",
    _corrupt=f"coalesce(odd, case when {_TOTAL} < 0 then 'it ended before it was added' end)",
)
_VERSION = f"""named_struct(
    'ended', state in {texts(ENDED)},
    'attempts', tried,
    'items', array({_ITEM}),
    'failed_items', transform(kinds, kind -> {_KIND})) as version"""
_NO_ROWS = ", ".join(f"'{table.name}', array()" for table in FOLDED)
_NOTHING = f"named_struct('ended', false, {_NO_ROWS})"


def _only(value: str, where: str) -> str:
    return f"any_value(case when {where} then {value} end, true)"


_PAIRED = (
    "any_value(touched and not returned) as touched",
    "any_value(returned) as returned",
    "min(heard) as heard",
    f"{_only('steps', 'sign > 0')} as steps",
    f"{_only('new_steps', 'sign > 0')} as added_steps",
    f"coalesce({_only('version', 'sign < 0')}, {_NOTHING}) as before",
    f"coalesce({_only('version', 'sign > 0 and not returned')}, {_NOTHING}) as after",
)
_DIFFERENT = tuple(
    each
    for name in (table.name for table in FOLDED)
    for each in (
        f"array_except(after.{name}, before.{name}) as more_{name}",
        f"array_except(before.{name}, after.{name}) as removed_{name}",
    )
)


def _stored(name: str) -> tuple[str, ...]:
    """The rows that a table gets and loses: it has those of what has ended; and all changes."""
    return (
        f"case when before.ended and after.ended then more_{name}"
        f" when after.ended then after.{name} end as {name}",
        f"case when before.ended and after.ended then removed_{name}"
        f" when before.ended then before.{name} end as gone_{name}",
        f"case when touched then more_{name} end as added_{name}",
        f"removed_{name}",
    )


_CHANGES = (
    *(each for table in FOLDED for each in _stored(table.name)),
    "added_steps",
    "case when not returned and not after.ended then steps end as open_steps",
    "case when not after.ended then after.attempts end as open_attempts",
    "case when not after.ended then after.items end as open_items",
    "case when not after.ended then after.failed_items end as open_failures",
    "case when returned then "
    f"array({_struct(RETURNED, recorded_at='heard.recorded_at', seq='heard.seq')}) end as returned",
)


def changes(known: DataFrame, new: DataFrame, *, can_return: bool = True) -> DataFrame:
    """What new steps change, beside known ones of the same subjects: a row for each life.

    Its columns are arrays of rows: to be added to a table (`items`) and to be deleted from it
    (`gone_items`); as they are after the batch and were not before, in whatever table
    (`added_items`), and the other way round (`removed_items`); steps, attempts and items that are
    open now; and subjects that have returned, unless they cannot: what is known of them must be
    read first.
    """
    every = known.withColumn("is_new", F.lit(False)).unionByName(
        new.withColumn("is_new", F.lit(True))
    )
    rows = with_fingerprints(every).withColumn("can_return", F.lit(can_return))
    for more in (_SEEN, _SIGNED, _NUMBERED):
        rows = rows.selectExpr("*", *more)
    rows = rows.selectExpr(*_NEIGHBOURS)
    for more in (_TIMED, _TRIED):
        rows = rows.selectExpr("*", *more)
    lives = rows.groupBy(*_SUBJECT, "sign", "run_no").agg(*map(F.expr, _FOLDED))
    for more in (_JUDGED, _ENDED):
        lives = lives.selectExpr("*", *more)
    versions = lives.selectExpr(
        *_SUBJECT, "sign", "run_no", "touched", "returned", "heard", "steps", "new_steps", _VERSION
    )
    pairs = versions.groupBy(*_SUBJECT, "run_no").agg(*map(F.expr, _PAIRED))
    return pairs.selectExpr("*", *_DIFFERENT).selectExpr(*_CHANGES)


Rule = Callable[[str], str | None]


def with_fingerprints(rows: DataFrame) -> DataFrame:
    """Rows with `error_class` and `fingerprint` of their `reason`."""
    # Python's patterns need no stack; Java's need a frame for each character of some texts, and
    # a task whose stack overflows ends the whole of Spark.
    rules: dict[str, Rule] = {"error_class": core.error_class, "fingerprint": core.fingerprint}
    return rows.withColumns({name: _column(of)(F.col("reason")) for name, of in rules.items()})


def _column(of: Rule) -> Any:
    def values(reasons: Any) -> Any:
        return _values(reasons, of)

    # Spark reads there that whole arrays go in and come out.
    values.__annotations__ = {"reasons": pa.Array, "return": pa.Array}
    # The name of a type would be sent to the server, which a declared pipeline refuses.
    return cast(Any, F).arrow_udf(values, StringType())


def _values(reasons: Any, of: Rule) -> Any:
    """A rule over texts, asked once for each different one; null stays null."""
    encoded = reasons.cast(pa.string()).dictionary_encode()
    known = [of(each) for each in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(known, pa.string()), encoded.indices)

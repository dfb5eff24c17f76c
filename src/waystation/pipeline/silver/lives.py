"""Lives: the steps of each job or file, folded into its attempts, its item and its failures.

One plan with one shuffle. The steps that were known before a batch are folded twice, without the
new ones and with them; what differs is what the batch has changed. So there is no rule of its own
for a job that ended before and goes on, nor for an attempt that was stored before.
"""

from collections.abc import Sequence

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core import fingerprints as core
from waystation.pipeline.silver import fingerprints
from waystation.pipeline.silver.moves import ENDED, ENDS, OUTCOMES, READY, STATES, STEPS
from waystation.pipeline.silver.steps import IS_CLAIM, SUBJECT
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
TOLD_STEPS = msgspec.structs.replace(
    STEPS,
    name="steps",
    columns=(
        *STEPS.columns,
        Column("earlier", TEXT, "event of the step before it, if that was in the same hour"),
        Column("repeated", FLAG, "whether a failure was told before in the same instant"),
    ),
)
"""Steps with what those before them say, so that each can be counted on its own."""
RETURNED = Table(
    name="returned",
    layer=Layer.SILVER,
    meaning="subjects with a new step of which nothing is known",
    key=SUBJECT,
    columns=tuple(each for each in STEPS.columns if each.name in (*SUBJECT, "told_at", "seq")),
)
"""Subjects that have returned, each with its first new step."""

_OF = "partition by subject, queue, line"
_TURN = f"{_OF}, sign order by told_at, seq"
_SO_FAR = f"{_TURN} rows between unbounded preceding and current row"
_ALL = f"{_TURN} rows between unbounded preceding and unbounded following"


def _columns(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


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
_HAS_ENDED = f"state in {texts(ENDED)}"
_STEP = _columns(STEPS.names)
_SAID = "struct(reason, error_class, fingerprint)"
"""An error message, and what it is known by."""
_NOTHING_SAID = (
    f"struct('' as reason, {_literal(core.error_class(''))} as error_class, "
    f"{_literal(core.fingerprint(''))} as fingerprint)"
)

# A subject has returned when it has a new step that is no birth, and nothing of it is known: it has
# ended, or nobody has heard of it. Files have no event for their birth.
_SEEN = f"""
with placed as (
    select *, max(is_new) over whole as touched, min(is_new) over whole as is_unknown,
           first_value(birth) over ({_OF} order by told_at, seq) as is_born
    from {{told}}
    window whole as ({_OF})
), signed as (
    select *, {{can_return}} and is_unknown and not is_born as returned
    from placed
    lateral view explode(case when touched and not is_new then array(1, -1) else array(1) end)
        as sign
), numbered as (
    select *,
           cast(sum(cast(birth as int)) over so_far as bigint) as life,
           cast(sum(cast(birth as int)) over everything as bigint) as newest,
           cast(sum(cast({IS_CLAIM} as int)) over so_far as bigint) as taken
    from signed
    window so_far as ({_SO_FAR}), everything as ({_ALL})
"""

# A frame to the end would be read again for every step; lag and lead are not. A clock that was set
# back must not make a wait negative. BullMQ of Node names no worker and writes no event for a
# failed attempt, only a new wait.
_TRIED = f"""
), marked as (
    select *,
           case when birth then taken end as taken_at_birth,
           {_mark("`at`", f"event in {texts(READY)}", until=IS_CLAIM)} as ready_mark,
           {_mark("`at`", "true", until=_ANOTHER)} as end_mark,
           {_mark("event", f"event in {texts(OUTCOMES)}", until=_ANOTHER)} as ending_mark,
           {_mark(_SAID, "reason is not null", until=_ANOTHER)} as said_mark,
           {_mark("_corrupt", "_corrupt is not null", until=_ANOTHER)} as odd_mark,
           date_trunc('hour', `at`) as `hour`,
           case when event in ('failed', 'dead') then struct(told_at, date_trunc('hour', `at`)) end
               as failing
    from numbered
), neighbours as (
    select {_STEP}, is_new, touched, returned, sign, life, newest, taken,
           case when reason is not null then {_SAID} end as said,
           last_value(taken_at_birth) ignore nulls over so_far as taken_before,
           (lag(ready_mark) ignore nulls over turn).col1 as ready_at,
           (lead(end_mark) ignore nulls over turn).col1 as ended_at,
           (lead(ending_mark) ignore nulls over turn).col1 as ending,
           (lead(said_mark) ignore nulls over turn).col1 as said_next,
           (lead(odd_mark) ignore nulls over turn).col1 as next_odd,
           case when lag(`hour`) over turn = `hour` then lag(event) over turn end as earlier,
           coalesce(failing = lag(failing) ignore nulls over turn, false) as repeated
    from marked
    window turn as ({_TURN}), so_far as ({_SO_FAR})
), claims as (
    select *,
           {IS_CLAIM} as is_claim,
           cast(taken - coalesce(taken_before, 0) as int) as attempt,
           unix_millis(`at`) - unix_millis(ready_at) as wait,
           unix_millis(ended_at) - unix_millis(`at`) as run,
           coalesce({chosen("ending", OUTCOMES)},
                    case when ended_at is null then 'open'
                         when worker is null then 'retried'
                         else 'returned' end) as outcome
    from neighbours
), tried as (
select {_STEP}, is_new, touched, returned, sign, life, newest, is_claim, earlier, repeated,
       case when is_claim then struct(
           attempt, ready_at, ended_at, outcome,
           case when wait >= 0 then wait end as wait_ms,
           case when run >= 0 then run end as run_ms,
           coalesce(_corrupt, next_odd,
                    case when wait < 0 then 'it was started before it was ready' end,
                    case when run < 0 then 'it ended before it was started' end) as odd) end
           as tried,
       case when is_claim and outcome in ('failed', 'retried')
            then coalesce(said, said_next, {_NOTHING_SAID}) end as said
from claims
)
"""

_TRIED_ROW = _struct(
    ATTEMPTS,
    attempt="tried.attempt",
    ready_at="tried.ready_at",
    started_at="`at`",
    ended_at="tried.ended_at",
    wait_ms="tried.wait_ms",
    run_ms="tried.run_ms",
    outcome="tried.outcome",
    error_class="said.error_class",
    fingerprint="said.fingerprint",
    reason="said.reason",
    _corrupt="tried.odd",
    date="to_date(`at`)",
)

# A retry and the wait after it share a millisecond: the wait counts. A job removed after its end
# keeps the state it ended in. An id that was used again was removed, with or without an event.
_FOLDED = f"""
, turned as (
    select *,
           {chosen("event", STATES)} as state,
           struct(told_at, seq) as place,
           struct(told_at, case when event in ('retry', 'stalled') then -1 else seq end) as turn,
           event not in ('removed', 'cancelled') as is_no_removal
    from tried
), folded as (
    select line, queue, subject, life, sign,
           any_value(touched) as touched,
           any_value(returned) as returned,
           any_value(newest) as newest,
           min_by(name, case when name is not null then place end) as name,
           min_by(`at`, case when birth then place end) as added_at,
           min(`at`) as first_at,
           min(case when is_claim then `at` end) as started_at,
           max_by(struct(state, `at`), turn) as last,
           max_by(struct(state, `at`), case when is_no_removal then turn end) as last_but_removal,
           cast(count_if(is_claim) as int) as attempts,
           cast(count_if(event = 'stalled') as int) as stalls,
           cast(greatest(0, count_if(event = 'completed') - 1 - count_if(again)) as int)
               as duplicates,
           max(told_at) as last_told_at,
           min_by(_corrupt, case when _corrupt is not null then place end) as odd,
           cast(sum(tried.wait_ms) as bigint) as wait_ms,
           cast(sum(tried.run_ms) as bigint) as run_ms,
           cast(count_if(tried.outcome = 'retried') as int) as retries,
           max_by(said, case when said is not null then tried.attempt end) as said,
           min(case when is_new then place end) as heard,
           collect_list(case when is_claim then {_TRIED_ROW} end) as tried,
           collect_list(struct({_STEP})) as steps,
           collect_list(case when is_new and sign > 0 and not returned
                             then {_struct(TOLD_STEPS)} end) as told
    from turned
    group by subject, queue, line, sign, life
), judged as (
    select *,
           case when last_but_removal.state in {texts(ENDS)} then last_but_removal else last end
               as final
    from folded
), ended as (
    select * except (final), final.state as said_state,
           case when final.state in {texts(ENDED)} then final.`at` end as ended_at,
           case when life = newest or final.state in {texts(ENDED)} then final.state
                else 'removed' end as state,
           to_date(coalesce(added_at, first_at)) as `date`
    from judged
), timed as (
    select *, unix_millis(ended_at) - unix_millis(added_at) as total,
           filter(tried, each -> each.fingerprint is not null) as failures,
           array_max(transform(tried, each -> each.attempt)) as last_attempt,
           array_max(transform(filter(tried, each -> each.outcome = 'completed'),
                               each -> each.started_at)) as good_at
    from ended
), kinds as (
    select *,
           transform(
               array_distinct(transform(failures, each -> each.fingerprint)),
               kind -> filter(failures, each -> each.fingerprint = kind)) as by_kind
    from timed
)
"""

_KIND = _struct(
    FAILED_ITEMS,
    fingerprint="kind[0].fingerprint",
    error_class="array_min(transform(kind, each -> each.error_class))",
    reason="array_min(transform(kind, each -> each.reason))",
    first_at="array_min(transform(kind, each -> each.started_at))",
    last_at="array_max(transform(kind, each -> each.started_at))",
    failed="cast(size(kind) as bigint)",
    retried="cast(size(filter(kind, each -> each.outcome = 'retried' "
    "or each.attempt < last_attempt)) as bigint)",
    recovered="exists(kind, each -> each.outcome = 'retried' or each.attempt < last_attempt) and "
    "coalesce(good_at > array_min(transform(kind, each -> each.started_at)), false)",
)
_ITEM = _struct(
    ITEMS,
    total_ms="case when total >= 0 then total end",
    reason="said.reason",
    fingerprint="said.fingerprint",
    _corrupt="coalesce(odd, case when total < 0 then 'it ended before it was added' end)",
)

_NOTHING = (
    f"""named_struct('ended', false, {", ".join(f"'{each.name}', array()" for each in FOLDED)})"""
)
_PAIRED = f"""
, versions as (
    select line, queue, subject, life, sign, touched, returned, heard, steps, told,
           named_struct('ended', {_HAS_ENDED},
                        'attempts', tried,
                        'items', array({_ITEM}),
                        'failed_items', transform(by_kind, kind -> {_KIND})) as version
    from kinds
), paired as (
    select line, queue, subject, life,
           any_value(touched and not returned) as touched,
           any_value(returned) as returned,
           min(heard) as heard,
           any_value(case when sign > 0 and not returned then steps end, true) as steps,
           any_value(case when sign > 0 then told end, true) as told,
           coalesce(any_value(case when sign < 0 then version end, true), {_NOTHING}) as before,
           coalesce(any_value(case when sign > 0 and not returned then version end, true),
                    {_NOTHING}) as after
    from versions
    group by subject, queue, line, life
)
"""


def _changed(table: Table) -> str:
    """The rows that are new, and those that are no more, whatever table they are in."""
    name = table.name
    return f"""
           array_except(after.{name}, before.{name}) as added_{name},
           array_except(before.{name}, after.{name}) as removed_{name}"""


def _stored(table: Table) -> str:
    """The rows that a table gets, and those that it loses: it has the rows of what has ended."""
    name = table.name
    return f"""
       case when before.ended and after.ended then added_{name}
            when after.ended then after.{name} end as {name},
       case when before.ended and after.ended then removed_{name}
            when before.ended then before.{name} end as gone_{name},
       case when touched then added_{name} end as added_{name},
       removed_{name}"""


_CHANGED = f"""
, changed as (
    select *, {", ".join(map(_changed, FOLDED))}
    from paired
)
select {", ".join(map(_stored, FOLDED))},
       told as added_steps,
       case when not after.ended then steps end as `open`,
       case when not after.ended then after.attempts end as open_attempts,
       case when not after.ended then after.items end as open_items,
       case when not after.ended then after.failed_items end as open_failures,
       case when returned then array({_struct(RETURNED, told_at="heard.told_at", seq="heard.seq")})
            end as returned
from changed
"""


def changes(known: DataFrame, new: DataFrame, *, can_return: bool = True) -> DataFrame:
    """What new steps change, beside known ones of the same subjects: a row for each life.

    Its columns are arrays of rows: to be added to a table (`items`) and to be deleted from it
    (`gone_items`); as they are after the batch and were not before, in whatever table
    (`added_items`), and the other way round (`removed_items`); steps, attempts and items that are
    open now; and subjects that have returned, unless they cannot: what is known of them must be
    read first.
    """
    told = known.withColumn("is_new", F.lit(False)).unionByName(
        new.withColumn("is_new", F.lit(True))
    )
    text = (_SEEN + _TRIED + _FOLDED + _PAIRED + _CHANGED).replace(
        "{can_return}", str(can_return).lower()
    )
    return known.sparkSession.sql(text, told=fingerprints.with_fingerprints(told))

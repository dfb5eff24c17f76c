"""Lives: the steps of each job or file, folded into its attempts, its item and its failures.

Tasks fold portions of Arrow that hold all steps of a subject, in order. The steps that were known
before a batch are folded twice, without the new ones and with them; what differs is what the batch
has changed. So there is no rule of its own for a job that ended before and goes on, nor for an
attempt that was stored before.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core import fingerprints as core
from waystation.pipeline.silver.moves import (
    CHARGED,
    ENDED,
    ENDS,
    MOVES,
    OPEN_ATTEMPTS,
    OPEN_FAILURES,
    OPEN_ITEMS,
    OUTCOMES,
    READY,
    STATES,
    STEPS,
)
from waystation.pipeline.silver.steps import (
    SUBJECT,
    ZONELESS,
    Ranges,
    arrival_hours,
    by_subject,
    hours,
    in_context,
    in_order,
    numbers,
    starts,
    subjects,
    unpacked,
)
from waystation.pipeline.storage.arrow import Array, Batch, pa, pc
from waystation.pipeline.tables import ATTEMPTS, FAILED_ITEMS, INSTANT, ITEMS, Column, Layer, Table

_MOVES = pa.array(MOVES)


class Folded(NamedTuple):
    """Steps, and the rows that their lives are."""

    steps: Batch
    life: Array
    """The number of the life that each step is of."""
    ended: Array
    """Whether each life has ended."""
    touched: Array
    """Whether it is of a subject with new steps."""
    rows: Mapping[str, Batch]
    """The rows of each table, each with the number of its life."""

    def where(self, table: Table, lives: Array) -> Batch:
        """The rows of some lives."""
        rows = self.rows[table.name]
        return kept(rows.select(table.names), lives.take(rows["life"]))


def folded(steps: Batch) -> Folded:
    """The lives in some steps: all of each subject, in the order of the stream."""
    move = pc.index_in(steps["event"], _MOVES)
    begins = pc.or_(starts(steps["subject"]), steps["birth"])
    lives, life = Ranges.of(begins), numbers(begins)
    attempts = _attempts(steps, move, lives, life)
    items = _items(steps, move, lives, life, attempts)
    rows = {
        ATTEMPTS.name: attempts,
        ITEMS.name: items,
        FAILED_ITEMS.name: _failed_items(attempts, items),
    }
    ended = pc.is_in(items["state"], pa.array(ENDED))
    return Folded(steps, life, ended, steps["touched"].take(lives.first), rows)


def _attempts(steps: Batch, move: Array, lives: Ranges, life: Array) -> Batch:
    """A row for each claim, of which is what comes before the next claim in the same life."""
    at, claims = steps["at"], _are(move, ("active",))
    turns = Ranges.of(pc.or_(claims, starts(life)))
    tries = turns.where(claims.take(turns.first))
    later = Ranges(pc.add(tries.first, 1), tries.beyond)
    begun = lives.first.take(life.take(tries.first))
    ready = _are(move, READY)
    before = Ranges(begun, tries.first).last(pc.or_(ready, claims))
    ready_at = at.take(pc.if_else(ready.take(before), before, None))
    ended_at = at.take(later.next(pc.not_equal(steps["event"], CHARGED)))
    mine = steps.select([*SUBJECT, "worker", "at", "weight", "free_at"]).take(tries.first)
    ending = _texts(move.take(later.next(_are(move, OUTCOMES))), OUTCOMES)
    # BullMQ of Node names no worker and writes no event for a failed attempt, only a new wait.
    let_go = pc.if_else(mine["worker"].is_null(), "retried", "returned")
    outcome = pc.coalesce(ending, pc.if_else(ended_at.is_null(), "open", let_go))
    said = pc.coalesce(steps["reason"].take(tries.next(steps["reason"].is_valid())), "")
    reason = pc.if_else(pc.is_in(outcome, pa.array(["failed", "retried"])), said, None)
    error_class, fingerprint = known_by(reason)
    wait, run = _millis(ready_at, mine["at"]), _millis(mine["at"], ended_at)
    known = Ranges(begun, later.beyond)
    free_at = mine["free_at"]
    columns = {
        **{name: mine[name] for name in (*SUBJECT, "worker")},
        "attempt": Ranges(begun, later.first).total(claims),
        "ready_at": ready_at,
        "started_at": mine["at"],
        "ended_at": ended_at,
        "wait_ms": _positive(wait),
        "run_ms": _positive(run),
        "outcome": outcome,
        "error_class": error_class,
        "fingerprint": fingerprint,
        "reason": reason,
        "group": steps["group"].take(known.next(steps["group"].is_valid())),
        "cost": steps["cost"].take(known.last(steps["cost"].is_valid())),
        "weight": mine["weight"],
        # After a pause of its group, only from its end on.
        "free_at": pc.if_else(pc.greater(free_at, ready_at), free_at, ready_at),
        "_corrupt": pc.coalesce(
            steps["_corrupt"].take(tries.next(steps["_corrupt"].is_valid())),
            _odd(wait, "it was started before it was ready"),
            _odd(run, "it ended before it was started"),
        ),
        "date": _day(mine["at"]),
        "life": life.take(tries.first),
    }
    return pa.record_batch(columns)


def _items(steps: Batch, move: Array, lives: Ranges, life: Array, attempts: Batch) -> Batch:
    """A row for each life."""
    at, claims, many = steps["at"], _are(move, ("active",)), len(lives.first)
    tried = Ranges.after_each_other(lives.total(claims))
    last_failed = tried.last(attempts["fingerprint"].is_valid())
    final = _final(steps, move, lives)
    state = _texts(move.take(final), STATES)
    has_ended = pc.is_in(state, pa.array(ENDED))
    mine = steps.select([*SUBJECT, "subject", "birth", "at"]).take(lives.first)
    # An id that was used again was removed, with or without an event.
    is_newest = pa.concat_arrays([starts(mine["subject"]), pa.array([True])])[1:]
    added_at = pc.if_else(mine["birth"], mine["at"], None)
    is_unborn = added_at.is_null().take(life)
    first_at = _of_life("min", at.filter(is_unborn), life.filter(is_unborn), many)
    ended_at = at.take(pc.if_else(has_ended, final, None))
    total = _millis(added_at, ended_at)
    repeated = pc.subtract(
        lives.total(_are(move, ("completed",))), pc.add(lives.total(steps["again"]), 1)
    )
    columns = {
        **{name: mine[name] for name in SUBJECT},
        "name": steps["name"].take(lives.next(steps["name"].is_valid())),
        "added_at": added_at,
        "started_at": _of_life("min", attempts["started_at"], attempts["life"], many),
        "ended_at": ended_at,
        "state": pc.if_else(pc.or_(is_newest, has_ended), state, "removed"),
        "attempts": tried.sizes,
        "retries": tried.total(pc.equal(attempts["outcome"], "retried")),
        "stalls": lives.total(_are(move, ("stalled",))),
        "wait_ms": _sum(tried, attempts["wait_ms"]),
        "run_ms": _sum(tried, attempts["run_ms"]),
        "total_ms": _positive(total),
        "reason": attempts["reason"].take(last_failed),
        "fingerprint": attempts["fingerprint"].take(last_failed),
        "duplicates": pc.max_element_wise(repeated, 0),
        "last_recorded_at": steps["recorded_at"].take(pc.subtract(lives.beyond, 1)),
        "group": steps["group"].take(lives.next(steps["group"].is_valid())),
        "cost": _of_life("sum", attempts["cost"], attempts["life"], many),
        "_corrupt": pc.coalesce(
            steps["_corrupt"].take(lives.next(steps["_corrupt"].is_valid())),
            _odd(total, "it ended before it was added"),
        ),
        "date": _day(pc.coalesce(added_at, first_at)),
        "life": pa.arange(0, many),
    }
    return pa.record_batch(columns)


def _final(steps: Batch, move: Array, lives: Ranges) -> Array:
    """The step of each life that tells its state: a job removed after its end keeps the state that
    it ended in."""
    stays = pc.invert(_are(move, ("removed", "cancelled")))
    last, kept = (_last(steps, move, lives, each) for each in (_are(move, MOVES), stays))
    return pc.if_else(_are(move.take(kept), ENDS), kept, last)


def _last(steps: Batch, move: Array, lives: Ranges, among: Array) -> Array:
    # A retry and the wait after it share a millisecond: the wait counts.
    waits = pc.and_(among, pc.invert(_are(move, ("retry", "stalled"))))
    last, wait = lives.last(among), lives.last(waits)
    at = steps["recorded_at"]
    is_same = pc.fill_null(pc.equal(at.take(wait), at.take(last)), False)
    return pc.if_else(is_same, wait, last)


def _failed_items(attempts: Batch, items: Batch) -> Batch:
    """A row for each life and each kind of failure that it had."""
    life, outcome = attempts["life"], attempts["outcome"]
    is_last = pc.equal(attempts["attempt"], items["attempts"].take(life))
    retried = pc.or_(pc.equal(outcome, "retried"), pc.invert(is_last))
    failed = attempts["fingerprint"].is_valid()
    failures = pa.Table.from_batches([attempts.append_column("retried", retried).filter(failed)])
    kinds = grouped(
        failures,
        ["life", "fingerprint"],
        *(("error_class", "min"), ("reason", "min"), ("started_at", "min"), ("started_at", "max")),
        *(("retried", "sum"), ("life", "count")),
    )
    good = pc.equal(outcome, "completed")
    started_at = attempts["started_at"]
    good_at = _of_life("max", started_at.filter(good), life.filter(good), items.num_rows)
    shared = [name for name in FAILED_ITEMS.names if name in ITEMS.names]
    mine = items.select(shared).take(kinds["life"])
    first_at, again = kinds["started_at_min"], kinds["retried_sum"]
    is_good = pc.fill_null(pc.greater(good_at.take(kinds["life"]), first_at), False)
    columns = {
        **{name: mine[name] for name in shared},
        "fingerprint": kinds["fingerprint"],
        "error_class": kinds["error_class_min"],
        "reason": kinds["reason_min"],
        "first_at": first_at,
        "last_at": kinds["started_at_max"],
        "failed": kinds["life_count"],
        "retried": again,
        "recovered": pc.and_(pc.greater(again, 0), is_good),
        "life": kinds["life"],
    }
    return pa.record_batch(columns)


def _of_life(kind: str, values: Array, life: Array, many: int) -> Array:
    """The least or the greatest value of each life, or their sum."""
    found = grouped(pa.table([values, life], ["of", "life"]), ["life"], ("of", kind))
    return found[f"of_{kind}"].take(pc.index_in(pa.arange(0, many), found["life"]))


def _sum(of: Ranges, values: Array) -> Array:
    return pc.if_else(pc.greater(of.total(values.is_valid()), 0), of.total(values), None)


def _millis(since: Array, until: Array) -> Array:
    zoneless = (each.cast(ZONELESS) for each in (since, until))
    return pc.milliseconds_between(*zoneless)


def _positive(millis: Array) -> Array:
    # A clock that was set back must not make a wait negative.
    return pc.if_else(pc.greater_equal(millis, 0), millis, None)


def _odd(millis: Array, what: str) -> Array:
    return pc.if_else(pc.less(millis, 0), what, None)


def _day(instants: Array) -> Array:
    return instants.cast(ZONELESS).cast(pa.date32())


def known_by(reasons: Array) -> tuple[Array, Array]:
    """The class and the fingerprint of each error message; null of none."""
    encoded = reasons.dictionary_encode()
    found = [*core.of_each(encoded.dictionary.to_pylist())]
    columns = zip(*found, strict=True) if found else ((), ())
    classes, fingerprints = (pa.array(each, pa.string()) for each in columns)
    return classes.take(encoded.indices), fingerprints.take(encoded.indices)


def _are(moves: Array, wanted: Container[str]) -> Array:
    """Whether moves are some of these."""
    return pc.fill_null(pa.array([each in wanted for each in MOVES]).take(moves), False)


def _texts(moves: Array, of: Mapping[str, str]) -> Array:
    """The text that belongs to each move; null where there is none."""
    return pa.array([of.get(each) for each in MOVES], pa.string()).take(moves)


def kept(rows: Batch, where: Array) -> Batch:
    """Some of the rows; all of them, as mostly, are not copied."""
    return rows if where.true_count == len(where) else rows.filter(where)


def grouped(rows: Any, by: Sequence[str], *of: tuple[str, str]) -> Batch:
    """Aggregates of rows with the same values in some columns."""
    # In this thread: Spark runs as many tasks as there are processors.
    grouped = rows.group_by(by, use_threads=False).aggregate([*of]).combine_chunks()
    return pa.record_batch([each.combine_chunks() for each in grouped.columns], grouped.schema)


FOLDED = (ATTEMPTS, ITEMS, FAILED_ITEMS)
"""The tables that lives are folded into."""
_OPEN = dict(zip(FOLDED, (OPEN_ATTEMPTS, OPEN_ITEMS, OPEN_FAILURES), strict=True))
RETURNED = Table(
    name="returned",
    layer=Layer.SILVER,
    meaning="subjects with a new step of which nothing is known",
    key=SUBJECT,
    columns=tuple(each for each in STEPS.columns if each.name in SUBJECT),
)
"""Subjects that have returned, each once."""
HOURS = Table(
    name="hours",
    layer=Layer.SILVER,
    meaning="hours in which something has changed",
    key=("hour",),
    columns=(Column("hour", INSTANT, "start of the hour"),),
)
"""The hours of new steps, of attempts that have changed, and of the arrivals of jobs that are no
longer counted as ended."""


def rows(known: DataFrame, new: DataFrame) -> DataFrame:
    """Known steps and new ones, in the order in which `changes` takes them."""
    old, fresh = known.withColumn("is_new", F.lit(False)), new.withColumn("is_new", F.lit(True))
    return in_order(old.unionByName(fresh))


def changes(batches: Iterable[Batch], *, can_return: bool = True) -> Iterator[Mapping[str, Batch]]:
    """What new steps change, beside known ones of the same subjects.

    These are rows to be added to a table (`items`) and to be deleted from it (`gone_items`); as
    they are after the batch and were not before, in whatever table (`added_items`), and the other
    way round (`removed_items`); steps, attempts and items that are open now; and subjects that have
    returned, unless they cannot: what is known of them must be read first.
    """
    touched: set[Any] = set()
    for steps in map(unpacked, by_subject(batches)):
        changed = _changes(steps, can_return=can_return)
        touched |= {hour for each in _touched(changed) for hour in pc.unique(each).to_pylist()}
        yield changed
    yield {HOURS.name: pa.record_batch({"hour": pa.array(touched, pa.timestamp("us", tz="UTC"))})}


def _touched(changed: Mapping[str, Batch]) -> Iterator[Array]:
    """The hours that gold is told of."""
    yield hours(changed["added_steps"]["at"])
    for name in ("added_attempts", "removed_attempts"):
        yield hours(changed[name]["started_at"])
    # They were counted as ended in the hours in which they were added.
    yield arrival_hours(changed["gone_items"], "added_at")


def _changes(steps: Batch, *, can_return: bool) -> dict[str, Batch]:
    subject, is_new = subjects(steps), steps["is_new"]
    each = Ranges.of(starts(subject))
    news = each.total(is_new)
    # A job_id has returned when nothing is known of it and its first step is no birth: it has
    # ended, or nobody has heard of it.
    is_unknown = pc.and_(pc.equal(news, each.sizes), can_return)
    returned = pc.and_(is_unknown, pc.invert(steps["birth"].take(each.first)))
    touched = pc.greater(news, 0).take(subject)
    steps = steps.append_column("subject", subject).append_column("touched", touched)
    after = folded(kept(steps, pc.invert(returned.take(subject))))
    before = folded(kept(steps, pc.and_(touched, pc.invert(is_new))))
    first = steps.take(each.first.filter(returned))
    changed = {RETURNED.name: first.select(RETURNED.names), **_steps(after)}
    for table in FOLDED:
        changed |= _rows(table, after, before)
    return changed


def _steps(of: Folded) -> dict[str, Batch]:
    is_open = pc.invert(of.ended.take(of.life))
    steps = in_context(of.steps, of.steps["subject"])
    return {
        "added_steps": kept(steps, of.steps["is_new"]),
        STEPS.name: kept(of.steps.select(STEPS.names), is_open),
    }


def _rows(table: Table, after: Folded, before: Folded) -> dict[str, Batch]:
    more, gone = _different(after.where(table, after.ended), before.where(table, before.ended))
    every = before.rows[table.name].select(table.names)
    added, removed = _different(after.where(table, after.touched), every)
    return {
        table.name: more,
        f"gone_{table.name}": gone,
        f"added_{table.name}": added,
        f"removed_{table.name}": removed,
        _OPEN[table].name: after.where(table, pc.invert(after.ended)),
    }


def _different(these: Batch, those: Batch) -> tuple[Batch, Batch]:
    """The rows of either that the other has not."""
    if not those.num_rows:
        return these, those
    both, names = pa.concat_batches([these, those]), these.schema.names
    row = pa.arange(0, both.num_rows)
    sign = pc.if_else(pc.less(row, these.num_rows), 1, -1)
    signed = pa.table([*both.columns, row, sign], [*names, "a_row", "sign"])
    net = grouped(signed, names, ("a_row", "min"), ("sign", "sum"))
    rows, left = net["a_row_min"], net["sign_sum"]
    return both.take(rows.filter(pc.greater(left, 0))), both.take(rows.filter(pc.less(left, 0)))

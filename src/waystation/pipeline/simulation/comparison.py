"""Comparison: the waits of a queue that were, next to those with other numbers of workers."""

import datetime as dt
import math
from collections.abc import Iterator, Sequence

import msgspec

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.engine import Engine, quoted
from waystation.pipeline.simulation.replay import (
    Attempt,
    Setup,
    Work,
    fewest_workers,
    percentile,
    recorded,
    replay,
)
from waystation.pipeline.tables import ATTEMPTS, PAYLOADS

RECORDED = "recorded"
REPLAYED = "replayed"
FEWEST = "fewest"
_CLEAR_MS = 20.0
"""Milliseconds below which waits are not compared: much of them is the way to the store."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Waits, as they were or as they would have been."""

    name: str
    workers: int
    """Jobs that ran at a time, at most."""
    wait_p50_ms: float
    wait_p95_ms: float
    wait_p99_ms: float
    late: float
    """The share of waits above the target."""
    worker_hours: float | None = None
    busy: float | None = None
    """The share of the worker-hours in which something ran."""
    waits: tuple[list[float], list[float]]
    """When each attempt was ready and how long it waited, in seconds."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Scenarios of the same work: as it was recorded, as it is replayed, and others."""

    attempts: int
    start: dt.datetime
    span_s: float
    target_s: float
    scenarios: list[Scenario]
    fewest: int | None

    @property
    def period(self) -> tuple[dt.datetime, dt.datetime]:
        """From the first instant to the last end."""
        return self.start, self.start + dt.timedelta(seconds=self.span_s)

    def sentences(self) -> Iterator[str]:
        """What follows from the figures."""
        target = seconds_text(self.target_s)
        if self.fewest is None:
            yield f"with no number of workers 95 % wait {target} at most: the rate is too low"
        else:
            yield (
                f"{self.fewest:,} at a time are the fewest with which 95 % of these jobs wait "
                f"{target} at most"
            )
        if self.scenarios and self.scenarios[0].name == RECORDED:
            yield self._check(*self.scenarios[:2])

    def _check(self, recorded: Scenario, replayed: Scenario) -> str:
        was, again = recorded.wait_p95_ms, replayed.wait_p95_ms
        text = (
            f"at most {recorded.workers:,} ran at a time: 95 % really waited "
            f"{seconds_text(was / 1000)} at most, and replayed with {replayed.workers:,} they "
            f"wait {seconds_text(again / 1000)}"
        )
        if min(was, again) < _CLEAR_MS or math.isclose(was, again, rel_tol=0.005):
            return text
        return f"{text}, {abs(again - was) / was:.0%} {'more' if again > was else 'less'}"


def compare(work: Work, counts: Sequence[int], *, target_s: float, setup: Setup) -> Comparison:
    """The recorded waits, a replay with as many workers as there were, and with others."""
    scenarios: list[Scenario] = []
    if work.has_waits:
        there = work.most_at_once
        # What was recorded had its own limits and order, which nobody has noted.
        was = _replayed(REPLAYED, work, Setup(workers=there), target_s)
        scenarios = [_recorded(work, there, target_s), was]
    fewest = fewest_workers(work, target_s, setup)
    wanted = {count: f"with {count:,}" for count in counts}
    if fewest is not None:
        wanted[fewest] = FEWEST
    scenarios += [
        _replayed(name, work, msgspec.structs.replace(setup, workers=count), target_s)
        for count, name in sorted(wanted.items())
    ]
    return Comparison(
        attempts=len(work),
        start=dt.datetime.fromtimestamp(work.start, dt.UTC),
        span_s=work.span_s,
        target_s=target_s,
        scenarios=scenarios,
        fewest=fewest,
    )


def _recorded(work: Work, workers: int, target_s: float) -> Scenario:
    late = sum(wait > target_s for wait in work.waits) / len(work)
    p50, p95, p99 = (1000 * percentile(work.waits, each) for each in (0.5, 0.95, 0.99))
    return Scenario(
        name=RECORDED,
        workers=workers,
        wait_p50_ms=p50,
        wait_p95_ms=p95,
        wait_p99_ms=p99,
        late=late,
        waits=(work.ready, work.waits),
    )


def _replayed(name: str, work: Work, setup: Setup, target_s: float) -> Scenario:
    found = replay(work, setup)
    p50, p95, p99 = (1000 * found.percentile(each) for each in (0.5, 0.95, 0.99))
    return Scenario(
        name=name,
        workers=setup.workers,
        wait_p50_ms=p50,
        wait_p95_ms=p95,
        wait_p99_ms=p99,
        late=found.late(target_s),
        worker_hours=found.worker_hours,
        busy=found.busy,
        waits=(found.ready, found.waits),
    )


def seconds_text(value: float) -> str:
    """Seconds as text, short ones in milliseconds."""
    return f"{value:.3g} s" if value >= 1 or value == 0 else f"{1000 * value:.3g} ms"


_ATTEMPTS = """
select job_id, attempt, epoch_us(ready_at) / 1e6, wait_ms / 1e3, run_ms / 1e3, {priority}
from attempts {join}
where {where} and wait_ms is not null and run_ms is not null
"""
_PRIORITIES = """
left join (
    select job_id, max(priority) as priority from payloads
    where product = {product} and queue = {queue} group by job_id
) using (job_id)
"""
_QUEUES = "select distinct product || '/' || queue from attempts order by 1 limit 11"


def recorded_attempts(
    engine: Engine,
    product: str,
    queue: str,
    *,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    with_priorities: bool = False,
) -> Work:
    """The attempts of a queue that have ended; refused where there are none."""
    engine.add_tables(named={ATTEMPTS.name, PAYLOADS.name} if with_priorities else {ATTEMPTS.name})
    where = [f"product = {quoted(product)}", f"queue = {quoted(queue)}"]
    if since:
        where += [f"date >= date '{since:%Y-%m-%d}'", f"ready_at >= timestamptz '{since}'"]
    if until:
        where.append(f"ready_at < timestamptz '{until}'")
    join = (
        _PRIORITIES.format(product=quoted(product), queue=quoted(queue)) if with_priorities else ""
    )
    priority = "coalesce(priority, 0)" if with_priorities else "0"
    query = _ATTEMPTS.format(priority=priority, join=join, where=" and ".join(where))
    rows = engine.select(query).rows
    if not rows:
        raise InvalidInput(_nothing(engine, f"{product}/{queue}"))
    return recorded(Attempt(*row) for row in rows)


def _nothing(engine: Engine, wanted: str) -> str:
    there = [name for (name,) in engine.select(_QUEUES).rows]
    if not there:
        return "the history has no attempts: `waystation pipeline run` stores them"
    names = ", ".join(there[:10]) + (", …" if len(there) > 10 else "")
    return f"the history has no attempts of {wanted} in that time; there are some of {names}"

"""The same fold in DuckDB's SQL, and whether it came to the same."""

import resource
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msgspec

from waystation.pipeline.silver.moves import MOVES, OUTCOMES, READY
from waystation.pipeline.tables import ATTEMPTS, HOURLY

_STEPS = """
select *, coalesce(fields['failedReason'], fields['error'], fields['reason']) as reason,
       coalesce(event in ('added', 'fired') or
                (event = 'waiting' and attempt = 1 and fields['prev'] is null), false) as birth
from read_parquet('{files}/*.parquet')
where line <> 'waitingroom' and subject <> '' and event in {moves}
"""

_ATTEMPTS = """
with with_lives as (
    select * exclude (attempt), event = 'active' as takes, takes or birth as another,
           sum(takes::int) over so_far as taken
    from steps
    window so_far as (partition by line, queue, subject order by told_at, seq
                      rows unbounded preceding)
), surrounded as (
    select line, queue, subject, takes, nullif(worker, '') as worker, "at" as started_at,
           taken - coalesce(last_value(case when birth then taken end ignore nulls) over so_far, 0)
               as attempt,
           lag(case when takes or event in {ready}
               then {{'is': case when not takes then "at" end}} end ignore nulls)
               over turn as ready,
           lead({{'is': case when not another then "at" end}}) over turn as "end",
           lead(case when another or event in {lets_go}
                then {{'is': case when not another then event end}} end ignore nulls)
               over turn as told,
           reason,
           lead(case when another or reason is not null
                then {{'is': case when not another then reason end}} end ignore nulls)
               over turn as saying,
           _corrupt,
           lead(case when another or _corrupt is not null
                then {{'is': case when not another then _corrupt end}} end ignore nulls)
               over turn as odd
    from with_lives
    window turn as (partition by line, queue, subject order by told_at, seq),
           so_far as (partition by line, queue, subject order by told_at, seq
                      rows unbounded preceding)
    qualify takes
), ended as (
    select * exclude (ready, told, reason, odd), ready['is'] as ready_at, "end"['is'] as ended_at,
           coalesce({outcomes}[told['is']],
                    case when ended_at is null then 'open'
                         when worker is null then 'retried' else 'returned' end) as outcome,
           case when outcome in ('failed', 'retried')
                then coalesce(reason, saying['is'], '') end as reason,
           epoch_ms(started_at) - epoch_ms(ready_at) as wait,
           epoch_ms(ended_at) - epoch_ms(started_at) as run,
           coalesce(_corrupt, odd['is']) as odd
    from surrounded
)
select line, queue, subject, attempt::int as attempt, worker, ready_at, started_at, ended_at,
       case when wait >= 0 then wait end as wait_ms, case when run >= 0 then run end as run_ms,
       outcome, reason,
       coalesce(odd, case when wait < 0 then 'it was started before it was ready'
                          when run < 0 then 'it ended before it was started' end) as _corrupt,
       started_at::date as date
from ended
"""

_HOURLY = """
with counts as (
    select line, queue, date_trunc('hour', "at") as hour, count_if(birth) as added,
           count_if(event = 'active') as started, count_if(event = 'completed') as completed,
           count(distinct case when event in ('failed', 'dead') then (subject, told_at) end)
               as failed
    from steps group by all
), times as (
    select line, queue, date_trunc('hour', started_at) as hour,
           count_if(outcome = 'retried') as retried, count_if(outcome = 'stalled') as stalled,
           approx_quantile(wait_ms, [0.5, 0.95, 0.99]) as wait,
           approx_quantile(run_ms, [0.5, 0.95, 0.99]) as run
    from read_parquet('{attempts}') group by all
)
select line, queue, hour, coalesce(added, 0) as added, coalesce(started, 0) as started,
       coalesce(completed, 0) as completed, coalesce(failed, 0) as failed,
       coalesce(retried, 0) as retried, coalesce(stalled, 0) as stalled, wait, run,
       (coalesce(completed, 0) + coalesce(failed, 0)) / 3600 as throughput
from counts full join times using (line, queue, hour)
"""

UNKNOWN = ("error_class", "fingerprint")
"""Columns that only Spark finds: RE2 cannot look around, as their patterns do."""
_EXACT = {
    "attempts": [name for name in ATTEMPTS.names if name not in UNKNOWN],
    "hourly": HOURLY.names[: HOURLY.names.index("wait_p50_ms")],
}
"""What must be equal: all but the percentiles, which both guess, each in its own way, and the
columns that only Spark finds."""


class Folded(msgspec.Struct, frozen=True):
    """What one fold took."""

    seconds: float
    peak_mb: float


def fold(files: str, out: str) -> Folded:
    """Fold a folder of events into `attempts.parquet` and `hourly.parquet`."""
    Path(out).mkdir(exist_ok=True)
    attempts = f"{out}/attempts.parquet"
    began = time.perf_counter()
    with _connected() as db:
        db.execute(f"create view steps as {_STEPS.format(files=files, moves=MOVES)}")
        db.execute(f"copy ({_attempts()}) to '{attempts}'")
        db.execute(f"copy ({_HOURLY.format(attempts=attempts)}) to '{out}/hourly.parquet'")
    took = time.perf_counter() - began
    return Folded(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def differences(ours: str, theirs: str) -> int:
    """How many rows of either are not in the other, where Spark and DuckDB have written."""
    found = 0
    with _connected() as db:
        for table, names in _EXACT.items():
            columns = ", ".join(names)
            here = f"select {columns} from read_parquet('{ours}/{table}/*.parquet')"
            there = f"select {columns} from read_parquet('{theirs}/{table}.parquet')"
            for one, other in ((here, there), (there, here)):
                rows = db.execute(f"select count(*) from ({one} except all {other})").fetchall()
                found += rows[0][0]
    return found


@contextmanager
def _connected() -> Generator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 2}) as db:
        db.execute("set TimeZone = 'UTC'; set enable_progress_bar = false")
        yield db


def _attempts() -> str:
    return _ATTEMPTS.format(
        ready=READY,
        lets_go=tuple(OUTCOMES),
        outcomes=f"map {OUTCOMES}",
    )

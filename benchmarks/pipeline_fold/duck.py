"""The same fold in DuckDB's SQL, and whether it came to the same."""

import resource
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msgspec

from waystation.pipeline.silver.moves import MOVES, OUTCOMES, READY
from waystation.pipeline.tables import ATTEMPTS

_STEPS = """
select *, coalesce(fields['failedReason'], fields['error'], fields['reason']) as reason,
       coalesce(event in ('added', 'fired') or
                (event = 'waiting' and attempt = 1 and fields['prev'] is null), false) as birth
from read_parquet('{files}/*.parquet')
where product <> 'waitingroom' and job_id <> '' and event in {moves}
"""

_ATTEMPTS = """
with with_lives as (
    select * exclude (attempt), event = 'active' as takes, takes or birth as another,
           sum(takes::int) over so_far as taken
    from steps
    window so_far as (partition by product, queue, job_id order by recorded_at, seq
                      rows unbounded preceding)
), surrounded as (
    select product, queue, job_id, takes, nullif(worker, '') as worker, "at" as started_at,
           taken - coalesce(last_value(case when birth then taken end ignore nulls) over so_far, 0)
               as attempt,
           lag(case when takes or event in {ready}
               then {{'is': case when not takes then "at" end}} end ignore nulls)
               over turn as ready,
           lead({{'is': case when not another then "at" end}}) over turn as "end",
           lead(case when another or event in {lets_go}
                then {{'is': case when not another then event end}} end ignore nulls)
               over turn as ending,
           reason,
           lead(case when another or reason is not null
                then {{'is': case when not another then reason end}} end ignore nulls)
               over turn as saying,
           _corrupt,
           lead(case when another or _corrupt is not null
                then {{'is': case when not another then _corrupt end}} end ignore nulls)
               over turn as odd
    from with_lives
    window turn as (partition by product, queue, job_id order by recorded_at, seq),
           so_far as (partition by product, queue, job_id order by recorded_at, seq
                      rows unbounded preceding)
    qualify takes
), ended as (
    select * exclude (ready, ending, reason, odd), ready['is'] as ready_at, "end"['is'] as ended_at,
           coalesce({outcomes}[ending['is']],
                    case when ended_at is null then 'open'
                         when worker is null then 'retried' else 'returned' end) as outcome,
           case when outcome in ('failed', 'retried')
                then coalesce(reason, saying['is'], '') end as reason,
           epoch_ms(started_at) - epoch_ms(ready_at) as wait,
           epoch_ms(ended_at) - epoch_ms(started_at) as run,
           coalesce(_corrupt, odd['is']) as odd
    from surrounded
)
select product, queue, job_id, attempt::int as attempt, worker, ready_at, started_at, ended_at,
       case when wait >= 0 then wait end as wait_ms, case when run >= 0 then run end as run_ms,
       outcome, reason,
       coalesce(odd, case when wait < 0 then 'it was started before it was ready'
                          when run < 0 then 'it ended before it was started' end) as _corrupt,
       started_at::date as date
from ended
"""

UNKNOWN = ("error_class", "fingerprint", "group", "cost", "weight", "free_at")
"""Columns that only Spark finds: RE2 cannot look around, as the patterns of the first two do; and
those of groups, which these events have not."""


class Folded(msgspec.Struct, frozen=True):
    """What one fold took."""

    seconds: float
    cpu_s: float
    peak_mb: float


def fold(files: str, out: str) -> Folded:
    """Fold a folder of events into `attempts.parquet`."""
    Path(out).mkdir(exist_ok=True)
    attempts = f"{out}/attempts.parquet"
    began, before = time.perf_counter(), time.process_time()
    with _connected() as db:
        db.execute(f"create view steps as {_STEPS.format(files=files, moves=MOVES)}")
        db.execute(f"copy ({_attempts()}) to '{attempts}'")
    took, spent = time.perf_counter() - began, time.process_time() - before
    return Folded(took, spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def differences(ours: str, theirs: str) -> int:
    """How many rows of either are not in the other, where Spark and DuckDB have written."""
    found = 0
    columns = ", ".join(name for name in ATTEMPTS.names if name not in UNKNOWN)
    here = f"select {columns} from read_parquet('{ours}/*.parquet')"
    there = f"select {columns} from read_parquet('{theirs}/attempts.parquet')"
    with _connected() as db:
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

"""Capacity: the workers that the arrivals of an hour need."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.pipeline.gold import staffing
from waystation.pipeline.gold.staffing import MINUTE_S, Service, Slot
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.sql import Frame, query, to_arrow

DEFAULT_TARGET_MS = 1_000
"""Target wait, in milliseconds."""
OF = ("line", "queue", "hour")

# Jobs that became ready, by slot: each `waiting` event, also after a retry. In an hour that is not
# over, arrivals are divided by the part that has passed.
_WORK = """
with ready as (
    select line, queue, date_trunc('hour', `at`) as `hour`,
           (unix_millis(`at`) - unix_millis(date_trunc('hour', `at`))) / 1000e0 as into_s
    from {steps}
    where event = 'waiting'
), slots as (
    select line, queue, `hour`, cast(floor(into_s / <slot_s>) as bigint) as slot,
           count(*) as many, max(into_s) as last_s
    from ready
    group by line, queue, `hour`, cast(floor(into_s / <slot_s>) as bigint)
), arrivals as (
    select line, queue, `hour`,
           sum(many) / greatest(60e0, least(3600e0, max(last_s))) as arrivals_per_s,
           map_from_entries(array_sort(collect_list(struct(slot, many)))) as slots
    from slots
    group by line, queue, `hour`
), services as (
    select line, queue, date_trunc('hour', started_at) as `hour`,
           avg(run_ms) as service_mean_ms,
           var_pop(run_ms) / nullif(avg(run_ms) * avg(run_ms), 0) as spread,
           count(distinct worker) as seen_workers
    from {attempts}
    group by line, queue, date_trunc('hour', started_at)
), hours as (
    select line, queue, `hour` from arrivals
    union select line, queue, `hour` from services
)
select hours.line, hours.queue, hours.`hour`,
       cast(coalesce(arrivals_per_s, 0e0) as double) as arrivals_per_s,
       cast(service_mean_ms as double) as service_mean_ms,
       hourly.run_p95_ms as service_p95_ms,
       cast(coalesce(arrivals_per_s, 0e0) * service_mean_ms / 1000e0 as double) as busy_workers,
       coalesce(seen_workers, 0) as seen_workers,
       cast(spread as double) as spread,
       slots
from hours
left join arrivals on hours.line = arrivals.line and hours.queue = arrivals.queue
                      and hours.`hour` = arrivals.`hour`
left join services on hours.line = services.line and hours.queue = services.queue
                      and hours.`hour` = services.`hour`
left join {hourly} as hourly on hours.line = hourly.line and hours.queue = hourly.queue
                                and hours.`hour` = hourly.`hour`
"""


class Advice(NamedTuple):
    """Arrivals per second in the busiest minute, and the workers needed; None if nothing ran."""

    busiest_per_s: float
    workers_needed: int | None


def capacity(steps: Frame, attempts: Frame, hourly: Frame, *, target_ms: int) -> Any:
    """One row for each queue and hour, as an Arrow table."""
    slot_s = staffing.slot_seconds(target_ms / 1000)
    text = _WORK.replace("<slot_s>", f"{slot_s!r}e0")
    work = to_arrow(query(text, steps=steps, attempts=attempts, hourly=hourly))
    advice = [_advice(slot_s, target_ms / 1000, row) for row in work.to_pylist()]
    columns = {
        "busiest_per_s": pa.array([each.busiest_per_s for each in advice], pa.float64()),
        "workers_needed": pa.array([each.workers_needed for each in advice], pa.int64()),
        "target_wait_ms": pa.array([target_ms] * len(advice), pa.int64()),
    }
    for name, values in columns.items():
        work = work.append_column(name, values)
    return work


def _advice(slot_s: float, target_s: float, row: dict[str, Any]) -> Advice:
    slots = [Slot(*each) for each in row["slots"] or ()]
    mean, spread = row["service_mean_ms"], row["spread"]
    return advised(slots, slot_s, target_s, mean=mean, spread=spread)


def advised(
    slots: Sequence[Slot],
    slot_s: float,
    target_s: float,
    *,
    mean: float | None,
    spread: float | None,
) -> Advice:
    """The advice for an hour, from its arrivals, and mean and spread of its run times."""
    minutes = Counter[int]()
    for slot in slots:
        minutes[int(slot.number * slot_s // MINUTE_S)] += slot.many
    busiest = max(minutes.values(), default=0) / MINUTE_S
    if mean is None:
        return Advice(busiest, None)
    if not slots:
        return Advice(busiest, 1)
    service = Service(mean / 1000, 1.0 if spread is None else spread)
    return Advice(busiest, staffing.workers(slots, slot_s, service, target_s))

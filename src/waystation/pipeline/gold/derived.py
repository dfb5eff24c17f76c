"""Rows of gold, derived from the sums of cells by the tasks that write them."""

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from waystation.core import fingerprints
from waystation.pipeline.gold import staffing
from waystation.pipeline.gold.cells import (
    COUNTS,
    EXAMPLES,
    FAILURE,
    FAILURE_DAY,
    FILE,
    FILE_DAY,
    HOUR,
    KINDS,
    LEFT,
    LEFT_DAY,
    MINUTE,
    MOST_KINDS,
    OTHER,
    QUARTER_MS,
    ROUTE,
    ROUTE_DAY,
    SLOT,
    TENANT,
    WORKER,
)
from waystation.pipeline.gold.staffing import Slot, advised
from waystation.pipeline.gold.turns import SLOT_S as TURN_S
from waystation.pipeline.gold.turns import Tenant, compared, tenant_of
from waystation.pipeline.histograms import PERCENTILES, percentile
from waystation.pipeline.products.bullmq import TENANTS, TURNS
from waystation.pipeline.products.files import FILE_DAYS, FILES, OUTLIER
from waystation.pipeline.products.routing import ROUTE_DAYS, ROUTES
from waystation.pipeline.products.waitingroom import ABANDONMENT, ABANDONMENT_DAYS, FUNNEL
from waystation.pipeline.storage.arrow import pc
from waystation.pipeline.tables import (
    CAPACITY,
    FAILURE_DAYS,
    FAILURES,
    HOURLY,
    SLOTS,
    WORKERS,
    Table,
)

Row = dict[str, Any]
HOUR_S = 3600


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of all rows, and needed for each of them."""

    target_ms: int
    """Wait that the recommended workers should keep."""
    today: dt.date
    """The last day that anything has happened on."""
    last_routed: dt.datetime | None = None
    """The last event of a routed job."""


class Cell(msgspec.Struct, frozen=True):
    """The sums of one key: a row of `cells`."""

    row: Row
    parts: Any
    """The buckets of its histograms and sets, in Arrow: an hour may have thousands."""

    @property
    def counts(self) -> Row:
        """Its counts, by their names."""
        names = KINDS[self.row["kind"]].counts
        return {name: self.row[column] for name, column in zip(names, COUNTS, strict=False)}

    @property
    def whose(self) -> Row:
        """Its product, queue and instant."""
        return {name: self.row[name] for name in ("product", "queue", "at")}

    @property
    def more(self) -> list[Any]:
        """The rest of its key."""
        return msgspec.json.decode(self.row["more"])

    def histogram(self, part: str) -> list[tuple[int, int]]:
        """The buckets of a part, in order, and how many values each has."""
        mine = self._of(part)
        return list(
            zip(*(mine.field(name).to_pylist() for name in ("bucket", "many")), strict=True)
        )

    def names(self, part: str) -> list[str]:
        """The names in a part, in order."""
        return self._of(part).field("name").to_pylist()

    def _of(self, part: str) -> Any:
        return self.parts.filter(pc.equal(self.parts.field("part"), part))


class Derived(msgspec.Struct, frozen=True):
    """A table of gold, and how its rows are derived from the cells of one kind."""

    table: Table
    kind: str
    rows: Callable[[list[Cell], Known], Iterable[Row]]
    """Its rows, from all cells of a queue and instant."""
    by: str | None = None
    """The column with the hour, minute or day; None: rows are about all time."""


def of_kind(kind: str) -> list[Derived]:
    """The tables that are derived from cells of a kind."""
    return [each for each in DERIVED if each.kind == kind]


def grouped(sums: Any) -> Iterator[list[Cell]]:
    """Rows of `cells` of one kind, as the cells of each queue and instant."""
    places: dict[tuple[Any, ...], list[Cell]] = defaultdict(list)
    rows = sums.drop_columns(["parts"]).to_pylist()
    for row, parts in zip(rows, sums["parts"], strict=True):
        places[row["product"], row["queue"], row["at"]].append(Cell(row, parts.values))
    yield from places.values()


def _hourly(cells: list[Cell], _: Known) -> Iterator[Row]:
    for cell in cells:
        counts, waits, runs = cell.counts, cell.histogram("wait"), cell.histogram("run")
        ended = counts["completed"] + counts["failed"]
        yield {
            **cell.whose,
            **counts,
            **_percentiles("wait", waits),
            **_percentiles("run", runs),
            "throughput": ended / HOUR_S,
            "wait_histogram": waits if waits or runs else None,
            "run_histogram": runs if waits or runs else None,
        }


def _percentiles(of: str, histogram: list[tuple[int, int]]) -> Row:
    return {f"{of}_p{part * 100:.0f}_ms": percentile(histogram, part) for part in PERCENTILES}


def _capacity(cells: list[Cell], known: Known) -> Iterator[Row]:
    target_s = known.target_ms / 1000
    slot_s = staffing.slot_seconds(target_s)
    for cell in cells:
        counts, quarters = cell.counts, cell.histogram("ready")
        if not quarters and not counts["started"]:
            continue
        mean, spread = _service(counts, cell.row["squares"])
        arrivals = _arrivals(cell)
        advice = advised(_slots(quarters, slot_s), slot_s, target_s, mean=mean, spread=spread)
        yield {
            **cell.whose,
            "arrivals_per_s": arrivals,
            "busiest_per_s": advice.busiest_per_s,
            "service_mean_ms": mean,
            "service_p95_ms": percentile(cell.histogram("run"), 0.95),
            "busy_workers": None if mean is None else arrivals * mean / 1000,
            "seen_workers": len(cell.names("worker")),
            "target_wait_ms": known.target_ms,
            "workers_needed": advice.workers_needed,
        }


def _service(counts: Row, squares: float) -> tuple[float | None, float | None]:
    """Mean run time, and variance divided by its square; None where nothing is known."""
    if not counts["ran"]:
        return None, None
    mean = counts["run_ms"] / counts["ran"]
    if not mean:
        return mean, None
    return mean, max(0.0, squares / counts["ran"] - mean * mean) / (mean * mean)


def _arrivals(cell: Cell) -> float:
    """Arrivals per second, in the part of the hour that has passed."""
    many = cell.counts["ready"]
    if not many:
        return 0.0
    last_s = (cell.row["last"] - cell.row["at"]) // dt.timedelta(milliseconds=1) / 1000
    return many / max(60.0, min(3600.0, last_s))


def _slots(quarters: list[tuple[int, int]], slot_s: float) -> list[Slot]:
    found: dict[int, int] = defaultdict(int)
    for quarter, many in quarters:
        found[math.floor(quarter * QUARTER_MS / 1000 / slot_s)] += many
    return [Slot(*each) for each in sorted(found.items())]


def _workers(cells: list[Cell], _: Known) -> Iterator[Row]:
    for cell in cells:
        yield {**cell.whose, **cell.counts, **_spanned(cell), "worker": cell.more[0]}


def _spanned(cell: Cell) -> Row:
    return {"first_at": cell.row["first"], "last_at": cell.row["last"]}


def _ten_seconds(cells: list[Cell], _: Known) -> Iterator[Row]:
    for cell in cells:
        yield {**cell.whose, **cell.counts, "slot": int(cell.more[0])}


def _tenants(cells: list[Cell], _: Known) -> Iterator[Row]:
    total = sum(cell.counts["cost"] for cell in cells)
    for cell in cells:
        counts, waits = cell.counts, cell.histogram("wait")
        tenant = _tenant(cell)
        yield {
            **cell.whose,
            "tenant": tenant.name,
            "started": counts["started"],
            "service": counts["cost"] / 1000,
            "over_weight": sum(tenant.served),
            "share": counts["cost"] / total if total else None,
            "wait_mean_ms": counts["wait_ms"] / counts["waited"] if counts["waited"] else None,
            **_percentiles("wait", waits),
            "waiting_s": len(tenant.waited) * TURN_S,
            "wait_histogram": waits or None,
        }


def _turns(cells: list[Cell], _: Known) -> Iterator[Row]:
    tenants = [_tenant(cell) for cell in cells]
    found = compared(tenants)
    apart = found.furthest
    yield {
        **cells[0].whose,
        "tenants": sum(each.first is not None for each in tenants),
        "compared_s": found.seconds,
        "deviation": apart and apart.deviation,
        "allowed": apart and apart.allowed,
        "ahead": apart and apart.ahead,
        "behind": apart and apart.behind,
        "held": found.held,
    }


def _tenant(cell: Cell) -> Tenant:
    return tenant_of(cell.more[0], cell.counts, cell.row["most"], cell.parts)


def _failure(cell: Cell) -> Row:
    return {
        **cell.whose,
        **cell.counts,
        **_spanned(cell),
        "fingerprint": cell.more[0],
        "reason": cell.row["word"],
        "error_class": cell.row["label"],
        "examples": cell.row["examples"],
        "kinds": 1,
    }


def _failure_days(cells: list[Cell], _: Known) -> Iterator[Row]:
    return map(_failure, cells)


def _failures(cells: list[Cell], _: Known) -> Iterator[Row]:
    """The most frequent kinds of failure of a queue, and one row for the rest."""
    found = sorted(map(_failure, cells), key=lambda row: (-row["attempts"], row["fingerprint"]))
    named, rest = found[:MOST_KINDS], found[MOST_KINDS:]
    for row in named:
        yield {**row, **_rates(row), "signature": _signature(row["reason"])}
    if rest:
        summed = {name: sum(row[name] for row in rest) for name in FAILURE.counts}
        other: Row = {
            **rest[0],
            **summed,
            "fingerprint": OTHER,
            "error_class": None,
            "first_at": min(row["first_at"] for row in rest),
            "last_at": max(row["last_at"] for row in rest),
            "examples": sorted({each for row in rest for each in row["examples"]})[:EXAMPLES],
            "kinds": len(rest),
        }
        yield {**other, **_rates(other)}


def _rates(row: Row) -> Row:
    seconds = math.floor(row["last_at"].timestamp()) - math.floor(row["first_at"].timestamp())
    return {
        "per_hour": row["attempts"] / max(1.0, seconds / 3600),
        "retry_helps": row["recovered"] / row["tried"] if row["tried"] else None,
    }


def _signature(reason: str | None) -> str | None:
    return None if reason is None else fingerprints.signature(reason)


def _funnel(cells: list[Cell], _: Known) -> Iterator[Row]:
    for cell in cells:
        yield {**cell.whose, **cell.counts, "lane": int(cell.more[0])}


def _left(cells: list[Cell], _: Known) -> Iterator[Row]:
    for cell in cells:
        ahead, estimate_s = (None if each is None else int(each) for each in cell.more)
        counts = cell.counts
        watched = counts["watched_ms"] / 1000
        yield {
            **cell.whose,
            **counts,
            "ahead_from": ahead,
            "estimate_from_s": estimate_s,
            "watched_s": watched,
            "hazard": counts["gone"] / watched if watched else None,
        }


def _routes(cells: list[Cell], known: Known) -> Iterator[Row]:
    for cell in cells:
        yield {
            **cell.whose,
            **cell.counts,
            "target": cell.more[0],
            "workers": cell.names("worker"),
            "wait_ms": cell.row["most"],
            "head_since": cell.row["first"],
            "last_recorded_at": cell.row["last"],
        }


def _all_routes(cells: list[Cell], known: Known) -> Iterator[Row]:
    for row in _routes(cells, known):
        head, many = row["head_since"], len(row["workers"])
        waited = None if head is None or known.last_routed is None else known.last_routed - head
        yield {
            **row,
            "workers": many,
            "unserved": row["waiting"] > 0 and not many,
            "head_ms": None if waited is None else waited // dt.timedelta(milliseconds=1),
        }


def _kind_of_file(cell: Cell) -> Row:
    directory, type_, size_class, *_ = cell.more
    return {
        **cell.whose,
        **cell.counts,
        **_spanned(cell),
        "directory": directory,
        "type": type_,
        "size_class": size_class,
    }


def _file_days(cells: list[Cell], _: Known) -> Iterator[Row]:
    for cell in cells:
        ran = cell.more[-1]
        yield {**_kind_of_file(cell), "run_from_ms": None if ran is None else int(ran)}


def _files(cells: list[Cell], _: Known) -> Iterator[Row]:
    for cell in cells:
        row, runs = _kind_of_file(cell), cell.histogram("run")
        median = percentile(runs, 0.5)
        last = row["last_at"] if not row["endless"] else None
        took = None if last is None or row["first_at"] is None else last - row["first_at"]
        finish = None if took is None else took // dt.timedelta(milliseconds=1)
        yield {
            **row,
            "run_p50_ms": median,
            "run_p95_ms": percentile(runs, 0.95),
            "outliers": _outliers(runs, median),
            "last_at": last,
            "finish_ms": finish,
            "throughput": row["files"] * 1000 / finish if finish else None,
        }


def _outliers(runs: list[tuple[int, int]], median: float | None) -> int:
    if median is None:
        return 0
    limit = OUTLIER * max(median, 1)
    return sum(many for each, many in runs if (percentile([(each, 1)], 0.5) or 0) > limit)


DERIVED = (
    Derived(HOURLY, HOUR.name, _hourly, "hour"),
    Derived(CAPACITY, HOUR.name, _capacity, "hour"),
    Derived(WORKERS, WORKER.name, _workers, "hour"),
    Derived(SLOTS, SLOT.name, _ten_seconds, "hour"),
    Derived(TENANTS, TENANT.name, _tenants, "hour"),
    Derived(TURNS, TENANT.name, _turns, "hour"),
    Derived(FAILURE_DAYS, FAILURE_DAY.name, _failure_days, "day"),
    Derived(FAILURES, FAILURE.name, _failures),
    Derived(FUNNEL, MINUTE.name, _funnel, "minute"),
    Derived(ABANDONMENT_DAYS, LEFT_DAY.name, _left, "date"),
    Derived(ABANDONMENT, LEFT.name, _left),
    Derived(ROUTE_DAYS, ROUTE_DAY.name, _routes, "date"),
    Derived(ROUTES, ROUTE.name, _all_routes),
    Derived(FILE_DAYS, FILE_DAY.name, _file_days, "date"),
    Derived(FILES, FILE.name, _files),
)
"""All tables that are derived from cells."""

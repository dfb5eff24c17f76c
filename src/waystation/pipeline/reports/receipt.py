"""Receipts: what the tenants of a queue were served, and whether the turns were kept."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from waystation.pipeline.histograms import PERCENTILES, percentile, summed
from waystation.pipeline.reports.parts import duration, moment, number, part

NO_GROUP = "no group"
"""The name of the jobs without a group, where a tenant is named."""
Rows = Sequence[Mapping[str, Any]]


class TenantReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one tenant was served over all hours of a receipt."""

    tenant: str
    """Empty: the jobs without a group."""
    started: int
    """Attempts."""
    service: float
    """What they cost."""
    over_weight: float
    """The same over the tenant's weight of that time."""
    share: float | None
    """The share of all that the queue has served."""
    wait_mean_ms: float | None
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    wait_p99_ms: float | None
    waiting_s: int
    """Seconds throughout which jobs of it waited for nothing but their turn."""

    @property
    def name(self) -> str:
        """The tenant as it is shown."""
        return self.tenant or NO_GROUP


class TenantsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue has served to its tenants, the one with the largest share first."""

    queue: str
    tenants: tuple[TenantReport, ...]
    hours: tuple[Mapping[str, Any], ...]
    """Its rows of `turns`, the oldest first."""
    shares: Mapping[str, Mapping[dt.datetime, float]]
    """The share of each tenant in each of these hours."""

    @property
    def furthest(self) -> Mapping[str, Any] | None:
        """The hour that says most: one in which two came too far apart, or furthest; or none."""
        known = [row for row in self.hours if row["deviation"] is not None]
        return max(
            known,
            key=lambda row: (_RANKS[row["held"]], row["deviation"] - row["allowed"]),
            default=None,
        )

    def held(self, verdict: bool | None) -> int:
        """In how many hours the turns were kept, or were not, or nobody can tell."""
        return sum(row["held"] is verdict for row in self.hours if row["deviation"] is not None)

    def said_of(self, tenant: str) -> TenantReport | None:
        """One of the tenants; None when nothing of it was started and nothing waited."""
        return next((each for each in self.tenants if each.tenant == tenant), None)

    def sentence(self, span: str, tenant: str | None = None) -> str:
        """All of it in a sentence: about one tenant, or about all of them."""
        mine = None if tenant is None else self.said_of(tenant)
        return f"{self._served(span, mine)}; {self._apart()}{self._verdict()}."

    def _served(self, span: str, mine: TenantReport | None) -> str:
        if mine is None:
            few, waited = [each for each in self.tenants if each.started], ""
            who = f"{number(len(few))} tenants" if len(few) != 1 else "one tenant"
            top = f", {few[0].name} the most ({part(few[0].share)})" if len(few) > 1 else ""
            return f"{who} shared {self.queue}'s service {span}{top}"
        waited = "" if mine.wait_p95_ms is None else f", waited {duration(mine.wait_p95_ms)} (p95)"
        return f"{mine.name} had {part(mine.share or 0)} of {self.queue}'s service {span}{waited}"

    def _apart(self) -> str:
        row = self.furthest
        if row is None:
            return "no two tenants waited at the same time, so there is nothing to compare"
        names = f"{row['ahead'] or NO_GROUP} and {row['behind'] or NO_GROUP}"
        by = f"{amount(row['deviation'])} where {amount(row['allowed'])} is allowed"
        if row["held"]:
            return "no two that waited differed by more than the cost of one job each"
        if row["held"] is False:
            return f"{names} differed by {by}, in the hour from {moment(row['hour'])}"
        return (
            f"{names} differed by {by}, for which a correction or an earlier job may be the reason"
        )

    def _verdict(self) -> str:
        of = sum(row["deviation"] is not None for row in self.hours)
        if not of:
            return ""
        unknown, alone = self.held(None), len(self.hours) - of
        more = [
            f"{number(unknown)} not known" if unknown else "",
            f"in {number(alone)} more nothing was to be compared" if alone else "",
        ]
        said = ", ".join(filter(None, more))
        hours = "1 hour" if of == 1 else f"{number(of)} hours"
        return f"; the bound held in {number(self.held(True))} of {hours}{said and f' ({said})'}"


_RANKS = {True: 0, None: 1, False: 2}


def amount(value: float) -> str:
    """A cost, with as many digits as are worth reading."""
    return number(value) if value >= 1000 else f"{value:.3g}"


def tenant_reports(
    tenants: Iterable[Mapping[str, Any]], turns: Iterable[Mapping[str, Any]]
) -> list[TenantsReport]:
    """A receipt for each queue, from rows of `tenants` and of `turns`."""
    by_queue: dict[str, list[Mapping[str, Any]]] = {}
    hours: dict[str, list[Mapping[str, Any]]] = {}
    for row in tenants:
        by_queue.setdefault(row["queue"], []).append(row)
    for row in turns:
        hours.setdefault(row["queue"], []).append(row)
    return [
        TenantsReport(
            queue=queue,
            tenants=tuple(_tenants(by_queue[queue])),
            hours=tuple(sorted(hours.get(queue, ()), key=lambda row: row["hour"])),
            shares=_shares(by_queue[queue]),
        )
        for queue in sorted(by_queue)
    ]


def _tenants(rows: Rows) -> list[TenantReport]:
    total = sum(row["service"] for row in rows)
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["tenant"], []).append(row)
    made = [_tenant(name, mine, total) for name, mine in found.items()]
    return sorted(made, key=lambda each: (-each.service, each.tenant))


def _tenant(name: str, rows: Rows, total: float) -> TenantReport:
    def added(column: str) -> Any:
        return sum(row[column] for row in rows)

    waits = summed(row["wait_histogram"] for row in rows)
    timed = [
        (row["wait_mean_ms"], sum(dict(row["wait_histogram"]).values()))
        for row in rows
        if row["wait_histogram"]
    ]
    many = sum(many for _, many in timed)
    return TenantReport(
        tenant=name,
        started=added("started"),
        service=added("service"),
        over_weight=added("over_weight"),
        share=added("service") / total if total else None,
        wait_mean_ms=sum(mean * many for mean, many in timed) / many if many else None,
        **{f"wait_p{100 * each:.0f}_ms": percentile(waits, each) for each in PERCENTILES},
        waiting_s=added("waiting_s"),
    )


def _shares(rows: Rows) -> dict[str, dict[dt.datetime, float]]:
    found: dict[str, dict[dt.datetime, float]] = {}
    for row in rows:
        found.setdefault(row["tenant"], {})[row["hour"]] = row["share"] or 0.0
    return found

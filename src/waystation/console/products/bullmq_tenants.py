"""Tenants of a queue in the console: who has which share of it now, and what holds each back."""

import asyncio
import math
from collections import defaultdict
from typing import Any

from waystation.bullmq import GroupState, Queue
from waystation.console.products.views import Tenants, TenantView
from waystation.console.why.recent import events_of
from waystation.core.store.commands import server_ms
from waystation.core.store.script import Client

LOOKED_AT = 4000
"""Newest events that shares are counted from."""
LONGEST_S = 3600.0
SHOWN = 20
"""Tenants that are shown: those with the largest shares, and those with the most that wait."""


class _Served:
    """What was started lately, and of whom."""

    def __init__(self) -> None:
        self.costs: dict[str, float] = defaultdict(float)
        self.starts: dict[str, int] = defaultdict(int)
        self.since_ms = 0.0

    @property
    def total(self) -> float:
        return sum(self.costs.values())


async def tenants_of(queue: Queue, client: Client, stream: str) -> Tenants:
    """Who shares a queue: nobody where no job has a group."""
    now_ms = await server_ms(client)
    listed = [each for each in await queue.groups.list(limit=5 * SHOWN) if "/" not in each.path]
    served = await _served(client, stream, now_ms)
    if not listed and not any(served.costs):
        return Tenants()
    waiting = {each.path: each for each in listed[:SHOWN]}
    top = sorted(served.costs, key=lambda path: -served.costs[path])[:SHOWN]
    others = [path for path in top if path and path not in waiting]
    waiting.update(zip(others, await asyncio.gather(*map(queue.groups.get, others)), strict=True))
    views = [_view(state, served) for state in waiting.values()]
    if "" in top:
        own = await queue.groups.settings()
        views.append(_ungrouped(own.weight, served))
    views.sort(key=lambda each: (-(each.share or 0), -(each.waiting or 0), each.group))
    more = await queue.groups.count() - sum(each.waiting > 0 for each in waiting.values())
    return Tenants(seconds=(now_ms - served.since_ms) / 1000, tenants=views, more=max(more, 0))


async def _served(client: Client, stream: str, now_ms: float) -> _Served:
    found, looked = _Served(), 0
    found.since_ms = now_ms
    async for at_ms, event in events_of(client, stream):
        looked += 1
        if looked > LOOKED_AT or now_ms - at_ms > LONGEST_S * 1000:
            break
        found.since_ms = at_ms
        if "weight" in event:
            tenant = event.get("group", "").partition("/")[0]
            found.costs[tenant] += _number(event.get("more", event.get("cost")))
            found.starts[tenant] += event.get("event") == "active"
    return found


def _number(text: str | None) -> float:
    """A cost; 0 for whatever another client has written instead."""
    try:
        number = float(text or 0)
    except ValueError:
        return 0
    return number if math.isfinite(number) else 0


def _view(state: GroupState, served: _Served) -> TenantView:
    settings, path = state.settings, state.path
    held = state.held_for_s
    return TenantView(
        group=path,
        **_lately(path, served),
        waiting=state.waiting,
        active=state.active,
        held_by=state.held_by,
        held_s=None if held is None or math.isinf(held) else held,
        paused=settings.paused,
        concurrency=settings.concurrency,
        rate=settings.rate and settings.rate.max,
        rate_s=settings.rate and settings.rate.duration_ms / 1000,
        weight=settings.weight or 1,
        max_size=settings.max_size,
        budget=settings.budget,
        spent_today=state.spent_today,
    )


def _ungrouped(weight: float | None, served: _Served) -> TenantView:
    nothing: dict[str, Any] = dict.fromkeys(
        ("waiting", "active", "held_by", "held_s", "concurrency", "rate", "rate_s", "max_size")
    )
    return TenantView(
        group="",
        **_lately("", served),
        **nothing,
        paused=False,
        weight=weight or 1,
        budget=None,
        spent_today=0,
    )


def _lately(path: str, served: _Served) -> dict[str, Any]:
    total = served.total
    return {
        "share": served.costs.get(path, 0) / total if total > 0 else None,
        "service": served.costs.get(path, 0),
        "started": served.starts.get(path, 0),
    }

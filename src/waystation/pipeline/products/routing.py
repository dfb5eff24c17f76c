"""Routing: rows as jobs, and its tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from waystation.core import codec
from waystation.core.errors import InvalidOption
from waystation.core.events import Line
from waystation.core.line.server_time import SERVER_TIME
from waystation.pipeline.products import cron_slots, routed_jobs
from waystation.pipeline.products.cron_slots import CRON_SLOTS, FIRED_SLOTS, SCHEDULES
from waystation.pipeline.products.facts import (
    FoldedTable,
    ProductFacts,
    State,
    list_elements,
)
from waystation.pipeline.products.routed_jobs import ROUTE_DAYS, ROUTED_JOBS, ROUTES
from waystation.pipeline.stream_names import streams_of
from waystation.routing.options import JobOptions, Retry
from waystation.routing.queue import NewJob, record
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.schedules import Schedule
from waystation.routing.target import Target


class RoutingEncoder:
    """Encodes a row as a job of its type; text must be JSON."""

    add = scripts.dispatch
    columns = ("type", "payload", "target", "priority", "delay", "attempts", "job_id")
    width = 8

    def keys(self, queue: str, prefix: str) -> RoutingKeys:
        """The keys of the namespace; each row's type is its queue."""
        return RoutingKeys(prefix)

    def leading(self, keys: RoutingKeys) -> Sequence[str]:
        """The namespace, and the server's time."""
        return keys.namespace, SERVER_TIME

    def with_setup(self, setup: str) -> "RoutingEncoder":
        """Refuse a setup: routing has none."""
        raise InvalidOption(f"routing takes no setup, got {setup}")

    def job(self, keys: RoutingKeys, row: Mapping[str, Any]) -> Sequence[Any]:
        """Kind, id, data, route, due time; no key and no jobs to wait for."""
        get = row.get
        given: dict[str, Any] = {
            "target": _json(get("target"), Target),
            "schedule": Schedule(delay=(get("delay") or 0) / 1000),
            "retry": None if get("attempts") is None else Retry(attempts=row["attempts"]),
            "priority": get("priority"),
            "job_id": get("job_id"),
        }
        options = JobOptions(**{name: value for name, value in given.items() if value is not None})
        payload = _json(get("payload"), Any)
        return record(
            NewJob(cast(str, get("type")), payload, options), now_ms=time.time_ns() // 1_000_000
        )


def _json(text: Any, kind: Any) -> Any:
    return codec.decode(text, kind) if isinstance(text, str) else text


def _state_key(prefix: str, _queue: str, state: str) -> str:
    return f"{RoutingKeys(prefix).name}:jobs:{state}"


def _open_ids(client: Any, prefix: str, _queue: str) -> Iterator[str]:
    """Ids of jobs that wait, are held by a worker, are due later, or wait for other jobs."""
    keys = RoutingKeys(prefix)
    found = chain(
        list_elements(client, keys.waiting),
        client.sscan_iter(keys.active, count=1000),
        (each for each, _ in client.zscan_iter(keys.delayed, count=1000)),
        (each for each, _ in client.zscan_iter(keys.cron, count=1000)),
        (each for each, _ in client.hscan_iter(keys.held, count=1000)),
    )
    return (each.decode("utf-8", "backslashreplace") for each in found)


FACTS = ProductFacts(
    line=Line.ROUTING,
    streams=streams_of(Line.ROUTING),
    states=(
        State("waiting", "list"),
        State("delayed", "zset"),
        State("cron", "zset"),
        State("deadletter", "list"),
    ),
    state_key=_state_key,
    ended_states=("deadletter",),
    open_ids=_open_ids,
    encoder=RoutingEncoder(),
    stream_limit=lambda prefix, _: (RoutingKeys(prefix).events_cap, ""),
    folded=(
        FoldedTable(
            ROUTED_JOBS,
            Line.ROUTING,
            routed_jobs.told,
            routed_jobs.merged,
            continues="origin is null",
            who=routed_jobs.WHO,
        ),
        # The day of a slot is in its event.
        FoldedTable(
            FIRED_SLOTS, Line.ROUTING, cron_slots.told, cron_slots.merged, continues="false"
        ),
    ),
    tables=(ROUTE_DAYS, ROUTES, SCHEDULES, CRON_SLOTS),
)

"""What a worker does, as numbers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.core.runtime.harness import until_all, working
from tests.support.patience import until
from waystation.core.errors import LeaseLost
from waystation.core.runtime.claim import Claim, Refused
from waystation.core.runtime.metered import Metered
from waystation.core.telemetry.metrics import Metrics
from waystation.testing.memory import MemorySource

LABELS = {"product": "bullmq", "queue": "mail"}


class Robbed(MemorySource):
    """Others take whatever is claimed here, before it is renewed."""

    renewals = 0

    async def _extend(self, claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
        self.renewals += 1
        return claims


def held(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("waystation_jobs_held", LABELS)


async def test_jobs_are_held_from_their_claim_until_they_are_settled() -> None:
    metrics, source = Metrics(), MemorySource()
    running, may_end = asyncio.Event(), asyncio.Event()
    for attempts in (1, 2):
        source.add(attempts, attempts=attempts)

    async def handle(work: Any) -> None:
        running.set()
        await may_end.wait()
        raise ValueError(work)

    meter = Metered(metrics, **LABELS)
    async with working(source, handle, concurrency=2, listener=meter):
        await running.wait()
        assert held(metrics) == 2

        may_end.set()
        await until_all(source, "failed")

    assert held(metrics) == 0
    shown = metrics.registry.get_sample_value
    assert shown("jobs_failed_total", {"queue": "mail", "reason": "HANDLER_ERROR"}) == 3
    assert shown("jobs_retried_total", {"queue": "mail"}) == 1
    assert shown("jobs_dead_letter_total", {"queue": "mail"}) == 2


async def test_a_lease_is_lost_once_however_long_its_handler_takes_to_end() -> None:
    metrics, source = Metrics(), Robbed()
    source.add(None)

    async def handle(work: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            while source.renewals < 4:
                await asyncio.sleep(0.01)
            raise

    meter = Metered(metrics, **LABELS)
    async with working(source, handle, listener=meter, lease=0.3, renew=0.02):
        await until(lambda: source.renewals)

    shown = metrics.registry.get_sample_value
    assert shown("waystation_leases_lost_total", LABELS) == 1
    assert held(metrics) == 0


def test_jobs_that_others_have_now_are_held_no_longer() -> None:
    metrics = Metrics()
    meter = Metered(metrics, **LABELS)
    first, second, third = (Claim(id, None, "token") for id in "abc")

    meter.claimed([first, second, third])
    meter.lost([first])
    meter.refused([Refused(second, LeaseLost("too late"))])

    assert held(metrics) == 1

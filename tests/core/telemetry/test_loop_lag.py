"""The lag of the event loop."""

import asyncio
import time

from tests.support.patience import until
from waystation.core.app import compose
from waystation.core.app.settings import TelemetrySettings
from waystation.core.telemetry.metrics import Metrics

COUNT = "waystation_loop_lag_seconds_count"
SUM = "waystation_loop_lag_seconds_sum"


def seen(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value(COUNT) or 0


async def test_a_loop_that_was_blocked_is_late_for_all_that_was_due_meanwhile() -> None:
    metrics = Metrics()
    observing = asyncio.create_task(compose.observe_lag(metrics.loop_lag.of(), every_s=0.02))
    await until(lambda: seen(metrics) >= 1)
    before = seen(metrics)

    time.sleep(0.5)  # noqa: ASYNC251  # the loop is blocked on purpose

    await until(lambda: seen(metrics) >= before + 25)
    observing.cancel()
    # Twenty-five were due; of these the first twenty were late by 0.1 s or more.
    assert (metrics.registry.get_sample_value(SUM) or 0) > 20 * 0.1


async def test_every_process_with_metrics_observes_its_loop() -> None:
    async with compose.telemetry(TelemetrySettings()) as telemetry:
        await until(lambda: seen(telemetry.metrics) >= 1)

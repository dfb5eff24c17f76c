"""`why` and the console answer, whatever bytes another program has left anywhere in the store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.console.harness import ADMIN, ConsoleApi
from tests.console.why import rooms, situations
from tests.console.why.rooms import SITUATIONS
from tests.console.why.scene import Scene, scene_on
from tests.console.why.situations import Situation
from tests.support.odd_bytes import with_odd_bytes
from waystation.console.why import why
from waystation.core.errors import WaystationError

SHOWN = (
    situations.waits_for_a_failed_child,
    situations.job_of_a_scheduler,
    situations.retried_job,
    situations.limited_type,
    situations.dead_routing_job,
    situations.dead_file,
    rooms.visitor_in_line,
)
"""What is in stores whose pages are looked at."""
PATHS = [
    *("overview", "workers", "schedulers", "failures", "coverage", "search?q=send"),
    *("queues/bullmq/mail", "queues/routing/bridge", "queues/files/jobqueue"),
    *(f"queues/bullmq/mail/jobs?state={state}" for state in ("waiting", "failed", "delayed")),
    *(f"queues/routing/bridge/jobs?state={state}" for state in ("waiting", "dead")),
    *(f"queues/files/jobqueue/jobs?state={state}" for state in ("waiting", "failed")),
]


@pytest.fixture
async def scene(redis_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_on(redis_url, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("make", SITUATIONS, ids=[each.__name__ for each in SITUATIONS])
async def test_why_answers_or_refuses(scene: Scene, redis_url: str, make: Situation) -> None:
    expected = await make(scene)
    raised: list[str] = []

    async for command in with_odd_bytes(redis_url):
        try:
            await why(scene.store, expected.subject, queue=expected.queue)
        except WaystationError:
            continue
        except Exception as error:
            raised.append(f"{command}: {error!r}")
    assert not raised, "\n".join(raised)


@pytest.mark.parametrize("make", SHOWN, ids=[each.__name__ for each in SHOWN])
async def test_the_console_shows_the_rest(scene: Scene, redis_url: str, make: Situation) -> None:
    await make(scene)
    console = ConsoleApi(scene.store, ADMIN)
    failed: list[str] = []

    async for command in with_odd_bytes(redis_url):
        for path in PATHS:
            answer = await console.here.get(f"/api/v1/{path}")
            if answer.status_code >= 500:
                failed.append(f"{command}, {path}: {answer.text}")
    await console.close()
    assert not failed, "\n".join(failed)

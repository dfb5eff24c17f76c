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
from tests.support.size import size
from waystation.console.why import why
from waystation.core.errors import WaystationError

ANY = ("overview", "workers", "schedulers", "failures", "coverage", "search?q=send")
PATHS_OF = {
    "bullmq": ["mail", *(f"mail/jobs?state={each}" for each in ("waiting", "failed", "delayed"))],
    "routing": ["bridge", *(f"bridge/jobs?state={each}" for each in ("waiting", "dead"))],
    "files": ["jobqueue", *(f"jobqueue/jobs?state={each}" for each in ("waiting", "failed"))],
    "waitingroom": [],
}
SHOWN = {
    situations.waits_for_a_failed_child: "bullmq",
    situations.job_of_a_scheduler: "bullmq",
    situations.retried_job: "bullmq",
    situations.limited_type: "routing",
    situations.dead_routing_job: "routing",
    situations.dead_file: "files",
    rooms.visitor_in_line: "waitingroom",
}
"""What is in stores whose pages are looked at."""


EVERY = size(3, full=1)


def part(number: int) -> slice:
    """Which changes a situation plays: one in three, so that three neighbours play all of them."""
    return slice(number % EVERY, None, EVERY)


@pytest.fixture
async def scene(redis_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_on(redis_url, tmp_path) as opened:
        yield opened


@pytest.mark.full
@pytest.mark.parametrize("make", SITUATIONS, ids=[each.__name__ for each in SITUATIONS])
async def test_why_answers_or_refuses(scene: Scene, redis_url: str, make: Situation) -> None:
    expected = await make(scene)
    raised: list[str] = []

    async for command in with_odd_bytes(redis_url, part(SITUATIONS.index(make))):
        try:
            await why(scene.store, expected.subject, queue=expected.queue)
        except WaystationError:
            continue
        except Exception as error:
            raised.append(f"{command}: {error!r}")
    assert not raised, "\n".join(raised)


@pytest.mark.full
@pytest.mark.parametrize("make", SHOWN, ids=[each.__name__ for each in SHOWN])
async def test_the_console_shows_the_rest(scene: Scene, redis_url: str, make: Situation) -> None:
    await make(scene)
    console = ConsoleApi(scene.store, ADMIN)
    product = SHOWN[make]
    paths = [*ANY, *(f"queues/{product}/{each}" for each in PATHS_OF[product])]
    failed: list[str] = []

    async for command in with_odd_bytes(redis_url, part(list(SHOWN).index(make))):
        for path in paths:
            answer = await console.here.get(f"/api/v1/{path}")
            if answer.status_code >= 500:
                failed.append(f"{command}, {path}: {answer.text}")
    await console.close()
    assert not failed, "\n".join(failed)

"""No text that a handler raises makes `why` say anything but that the job failed, and with what."""

import ast
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.console.why.scene import Scene, scene_on, until
from tests.support.project import SOURCE
from waystation import routing
from waystation.bullmq import JobOptions
from waystation.console.why import Cause, why

BETWEEN = {
    "bullmq": (
        *("bullmq/source.py", "bullmq/callbacks.py", "bullmq/worker.py", "bullmq/fields.py"),
        *("console/why/[!o]*.py", "console/why/of_bullmq.py"),
    ),
    "routing": (
        *("routing/source.py", "routing/reasons.py", "routing/worker.py"),
        *("console/why/[!o]*.py", "console/why/of_routing.py"),
    ),
    "files": ("files/fetch.py", "console/why/[!o]*.py", "console/why/of_files.py"),
}
"""What stands between a handler and `why`, by product."""


def texts(product: str) -> list[str]:
    """Every text in the code between a handler and `why`, so all that it could look for."""
    found = {
        " ".join(node.value.split())
        for where in BETWEEN[product]
        for path in SOURCE.glob(where)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return sorted(text for text in found if 5 < len(text) < 80)


@pytest.fixture
async def scene(redis_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_on(redis_url, tmp_path) as opened:
        yield opened


async def bullmq_fails(scene: Scene, said: list[str]) -> list[str]:
    async def handler(job: Any) -> None:
        raise ValueError(job.data)

    added = await scene.mail.add_many([("charge", text, JobOptions(attempts=1)) for text in said])
    await scene.bullmq_worker(handler, concurrency=20)
    await until(partial(_has, scene.mail, "failed", len(said)))
    return [job.id for job in added]


async def routing_fails(scene: Scene, said: list[str]) -> list[str]:
    async def handler(job: Any) -> None:
        raise ValueError(job.data)

    once = routing.Retry(attempts=1)
    ids = [(await scene.routing.add("charge", text, retry=once)).id for text in said]
    await scene.routing_worker({"charge": handler}, concurrency=20)
    await until(partial(_has, scene.routing, "dead", len(said)))
    return ids


async def files_fails(scene: Scene, said: list[str]) -> list[str]:
    async def handler(job: Any) -> None:
        raise ValueError(said[int(Path(job.path).name)])

    ids = [(await scene.file(str(number))).id for number in range(len(said))]
    await scene.files_worker(handler, concurrency=20, max_retries=0)
    await until(partial(_has, scene.files, "failed", len(said)))
    return ids


async def _has(queue: Any, state: str, wanted: int) -> bool:
    return (await queue.counts())[state] == wanted


FAILS = {"bullmq": bullmq_fails, "routing": routing_fails, "files": files_fails}


@pytest.mark.parametrize("product", FAILS)
async def test_whatever_a_handler_raises_is_told_as_its_failure(scene: Scene, product: str) -> None:
    said = texts(product)

    ids = await FAILS[product](scene, said)

    assert len(said) > 100
    for id, text in zip(ids, said, strict=True):
        [answer] = await why(scene.store, id, product=product)
        assert answer.cause is Cause.FAILED, (text, answer.sentence)
        assert text in answer.sentence

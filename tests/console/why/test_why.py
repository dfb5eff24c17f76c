"""`why` is right about every situation, and finds what it is asked about by itself."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.exceptions import ResponseError

from tests.console.why.rooms import SITUATIONS
from tests.console.why.scene import Scene, scene_on
from tests.console.why.situations import MAIL, Situation, failed_job, fails
from waystation import bullmq
from waystation.console.why import Answer, Cause, of_bullmq, why
from waystation.console.why.recent import Pace
from waystation.core.store.connection.pipe import Pipe
from waystation.errors import InvalidOption, StoreBusy


@pytest.fixture
async def scene(redis_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_on(redis_url, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("make", SITUATIONS, ids=[each.__name__ for each in SITUATIONS])
async def test_one_sentence_says_why(scene: Scene, make: Situation) -> None:
    expected = await make(scene)

    [answer] = await why(scene.store, expected.subject, queue=expected.queue)

    assert answer.cause is expected.cause, answer.sentence
    assert re.search(expected.says, answer.sentence), answer.sentence
    assert answer.sentence.endswith((".", "?"))
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Answer).id == answer.id


async def test_a_job_that_failed_names_the_line_of_the_handler(scene: Scene) -> None:
    expected = await failed_job(scene)

    [answer] = await why(scene.store, expected.subject)

    line = fails.__code__.co_firstlineno + 2
    assert answer.evidence["raised_at"] == f"situations.py:{line} fails"


async def test_an_id_of_several_queues_has_an_answer_for_each(scene: Scene) -> None:
    await scene.mail.add("send")
    async with bullmq.Queue("sms", scene.store) as other:
        await other.add("send", delay=3600)

        found = await why(scene.store, "1")
        [one] = await why(scene.store, "sms/1")

    assert [(each.queue, each.cause) for each in found] == [
        ("mail", Cause.NOBODY),
        ("sms", Cause.DELAYED),
    ]
    assert one == found[1]


async def test_a_job_is_named_behind_a_queue_with_slashes_in_its_name(scene: Scene) -> None:
    await scene.mail.add("send")
    async with bullmq.Queue("mail/eu", scene.store) as other:
        await other.add("send", delay=3600)

        found = [await why(scene.store, each) for each in ("mail/1", "mail/eu/1", "mail/eu")]

    assert [(each.queue, each.kind, each.cause) for [each] in found] == [
        ("mail", "job", Cause.NOBODY),
        ("mail/eu", "job", Cause.DELAYED),
        ("mail/eu", "queue", Cause.EMPTY),
    ]


async def test_asking_leaves_no_trace(scene: Scene) -> None:
    await why(scene.store, "nothing")
    await why(scene.store, "nothing", queue="nowhere")

    assert await scene.store.redis.dbsize() == 0


@pytest.mark.parametrize("nothing", ["", "  ", "/"])
async def test_asking_about_nothing_is_refused(scene: Scene, nothing: str) -> None:
    with pytest.raises(InvalidOption, match="must be an id, a path or a name"):
        await why(scene.store, nothing)


async def test_an_unknown_product_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidOption, match="product must be one of bullmq, routing"):
        await why(scene.store, "1", product="celery")


async def test_a_store_that_is_busy_is_not_one_that_knows_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.mail.remove((await scene.mail.add("send")).id)

    _make_busy(monkeypatch, "XREVRANGE")
    with pytest.raises(StoreBusy):
        await of_bullmq.job(scene.store, MAIL, "1", shown="mail")


async def test_a_store_that_is_busy_when_the_pace_is_asked_for_is_called_busy(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.routing_worker({"render": scene.blocks}, concurrency=1)
    for _ in range(2):
        await scene.routing.add("render", {})

    _make_busy(monkeypatch, "TIME")
    with pytest.raises(StoreBusy):
        await why(scene.store, "render")


def _make_busy(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Let the store refuse this command for now."""
    step = Pipe.execute_command

    async def busy(pipe: Pipe, *asked: Any) -> Any:
        if asked[0] == command:
            raise ResponseError("BUSY Redis is busy running a script")
        return await step(pipe, *asked)

    monkeypatch.setattr(Pipe, "execute_command", busy)


def test_a_range_narrows_with_what_was_seen() -> None:
    few, many = Pace(10, 60).range_s(100), Pace(1000, 6000).range_s(100)

    assert few[0] < many[0] < 600 < many[1] < few[1]
    assert Pace(1000, 6000).sentence(40).startswith(", which takes about 3 to 5 minutes at")
    assert Pace(4, 60).sentence(40) == ""

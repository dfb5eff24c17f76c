"""What is wrong with one queue, or with one webhook, concerns no other."""

import pytest

from tests.console.hands import Desk
from waystation.bullmq import JobOptions, Queue
from waystation.bullmq.redis.keys import QueueKeys
from waystation.console.why import why
from waystation.core.errors import WrongType
from waystation.routing import Queue as Routing

BAD = QueueKeys("bad")
KEYS = sorted(
    {
        BAD.meta, BAD.wait, BAD.active, BAD.delayed, BAD.prioritized, BAD.completed, BAD.failed,
        BAD.events, BAD.repeat, BAD.waiting_children,
    }
)  # fmt: skip
"""Where something else may lie than a queue has there."""
PAGES = {
    "overview": True, "workers": False, "schedulers": False, "store": True, "coverage": False,
    "failures": True, "search?q=state:waiting": True, "search?q=id:one": True, "search?q=a": True,
}  # fmt: skip
"""What is about all queues, and whether it names one that has jobs and nobody who works."""


async def two_queues(desk: Desk) -> None:
    for name in ("bad", "mail"):
        queue = Queue(name, desk.store)
        await queue.add_many([("a", {}, JobOptions(job_id=id)) for id in ("one", "two")])
        await queue.cancel("two")


async def shows_the_other(desk: Desk) -> None:
    await desk.app.console.sampler.take()
    for page, names in PAGES.items():
        found = await desk.here.get(f"/api/v1/{page}")
        assert found.status_code == 200, (page, found.text)
        assert '"mail"' in found.text or not names, page
    assert "mail" in [each.queue for each in await why(desk.store, "one")]


async def test_keys_of_another_type_hide_no_other_queue(desk: Desk) -> None:
    for key in KEYS:
        await two_queues(desk)
        await desk.store.ask("DEL", key)
        await desk.store.ask("SET", key, "of another type")
        await shows_the_other(desk)
        # Nobody says that there is no such thing where it could not be looked for.
        if key == BAD.failed:
            with pytest.raises(WrongType):
                await why(desk.store, "three")
            found = await desk.get("search", params={"q": "state:failed"})
            assert not found["complete"]
        await desk.store.ask("FLUSHDB")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timestamp", "9" * 18),
        ("processedOn", "9" * 30),
        ("finishedOn", "9" * 18),
        ("name", b"\xff"),
    ],
)
async def test_a_job_of_another_program_hides_no_other_queue(
    desk: Desk, field: str, value: str | bytes
) -> None:
    await two_queues(desk)
    for id in ("one", "two"):
        await desk.store.ask("HSET", BAD.of(id).job, field, value, "pb", "w1")
    await shows_the_other(desk)
    await desk.store.ask("LMOVE", BAD.wait, BAD.active, "LEFT", "LEFT")
    await shows_the_other(desk)
    overview = await desk.get("overview")
    assert [each["name"] for each in overview["queues"]] == ["bad", "mail"]


@pytest.mark.parametrize("fields", [(b"event", b"\xff"), (b"name", b"event"), (b"a", b"b")])
async def test_an_event_of_another_program_hides_no_other_queue(
    desk: Desk, fields: tuple[bytes, bytes]
) -> None:
    await two_queues(desk)
    await shows_the_other(desk)
    await desk.store.ask("XADD", BAD.events, f"{9**18}-1", *fields)
    await shows_the_other(desk)
    assert "one" in (await desk.get("queues/bullmq/bad/jobs/one"))["job"]["id"]


async def test_rates_are_counted_whatever_a_type_is_called(desk: Desk) -> None:
    sampler, queue = desk.app.console.sampler, Routing(desk.store)
    await queue.add("event")
    await sampler.take()
    for _ in range(3):
        await queue.add("event")
    await sampler.take()
    [found] = [each for each in sampler.latest.queues if each.product == "routing"]
    assert found.added_per_s > 0

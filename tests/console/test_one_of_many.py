"""What is wrong with one queue, or with one webhook, concerns no other."""

import pytest

from tests.console.harness import ConsoleApi
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


async def two_queues(api: ConsoleApi) -> None:
    for name in ("bad", "mail"):
        queue = Queue(name, api.store)
        await queue.add_many([("a", {}, JobOptions(job_id=id)) for id in ("one", "two")])
        await queue.cancel("two")


async def shows_the_other(api: ConsoleApi) -> None:
    await api.app.console.sampler.take()
    for page, names in PAGES.items():
        found = await api.here.get(f"/api/v1/{page}")
        assert found.status_code == 200, (page, found.text)
        assert '"mail"' in found.text or not names, page
    assert "mail" in [each.queue for each in await why(api.store, "one")]


async def test_keys_of_another_type_hide_no_other_queue(api: ConsoleApi) -> None:
    for key in KEYS:
        await two_queues(api)
        await api.store.ask("DEL", key)
        await api.store.ask("SET", key, "of another type")
        await shows_the_other(api)
        # Nobody says that there is no such thing where it could not be looked for.
        if key == BAD.failed:
            with pytest.raises(WrongType):
                await why(api.store, "three")
            found = await api.get("search", params={"q": "state:failed"})
            assert not found["complete"]
        await api.store.ask("FLUSHDB")


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
    api: ConsoleApi, field: str, value: str | bytes
) -> None:
    await two_queues(api)
    for id in ("one", "two"):
        await api.store.ask("HSET", BAD.of(id).job, field, value, "pb", "w1")
    await shows_the_other(api)
    await api.store.ask("LMOVE", BAD.wait, BAD.active, "LEFT", "LEFT")
    await shows_the_other(api)
    overview = await api.get("overview")
    assert [each["name"] for each in overview["queues"]] == ["bad", "mail"]


@pytest.mark.parametrize("fields", [(b"event", b"\xff"), (b"name", b"event"), (b"a", b"b")])
async def test_an_event_of_another_program_hides_no_other_queue(
    api: ConsoleApi, fields: tuple[bytes, bytes]
) -> None:
    await two_queues(api)
    await shows_the_other(api)
    await api.store.ask("XADD", BAD.events, f"{9**18}-1", *fields)
    await shows_the_other(api)
    assert "one" in (await api.get("queues/bullmq/bad/jobs/one"))["job"]["id"]


async def test_rates_are_counted_whatever_a_type_is_called(api: ConsoleApi) -> None:
    sampler, queue = api.app.console.sampler, Routing(api.store)
    await queue.add("event")
    await sampler.take()
    for _ in range(3):
        await queue.add("event")
    await sampler.take()
    [found] = [each for each in sampler.latest.queues if each.product == "routing"]
    assert found.added_per_s > 0

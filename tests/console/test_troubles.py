"""The overview says of each queue and room whether somebody should look at it, and why."""

import re
from datetime import UTC, datetime, timedelta
from importlib.resources import files as packaged
from pathlib import Path
from typing import Any

import pytest

from tests.console.harness import ConsoleApi
from tests.console.test_matching import failed
from waystation import files, routing
from waystation.bullmq import NewJob, Queue, Worker
from waystation.console import troubles
from waystation.console.measures import Point, QueueSample
from waystation.console.troubles import WEIGHTS, plain
from waystation.waitingroom import JoinRequest, Room, RoomOptions


async def _overview(api: ConsoleApi) -> dict[str, Any]:
    await api.app.console.sampler.take()
    return {each["name"]: each for each in (await api.get("overview"))["queues"]}


async def _trouble(api: ConsoleApi, name: str) -> tuple[str, str] | None:
    found = (await _overview(api))[name]["trouble"]
    return found and (found["cause"], found["text"])


async def test_a_queue_that_nobody_works_on_is_in_trouble_until_somebody_does(
    api: ConsoleApi,
) -> None:
    async def handle(job: Any) -> None: ...

    async with Queue("mail", api.store) as mail:
        job = await mail.add("send")
        said = "has nobody who works on it: no worker is connected"
        assert await _trouble(api, "mail") == ("nobody", said)
        async with Worker("mail", handle, api.store):
            await job.wait()
            assert await _trouble(api, "mail") is None


async def test_of_a_paused_queue_it_is_said_who_paused_it(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("send", created_at=datetime.now(UTC) - timedelta(hours=1))
        await mail.pause(by="anna")
        found = await _trouble(api, "mail")
        sample = (await _overview(api))["mail"]
    assert found is not None
    assert found[0] == "paused"
    assert found[1].startswith("was paused by anna at ")
    assert sample["oldest_s"] >= 3600


async def test_a_queue_that_fails_weighs_more_than_one_without_a_worker(api: ConsoleApi) -> None:
    await failed(api, "no answer", *range(6))
    async with Queue("idle", api.store) as idle:
        await idle.add("send")
        await api.app.console.directory.look()
        seen = await _overview(api)
    assert seen["mail"]["trouble"]["cause"] == "failing"
    assert "all of the last 6 attempts failed" in seen["mail"]["trouble"]["text"]
    assert seen["mail"]["trouble"]["weight"] > seen["idle"]["trouble"]["weight"]


async def test_files_routing_and_rooms_are_in_trouble_like_any_queue(
    api: ConsoleApi, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("1")
    async with files.Queue(api.store) as taken, routing.Queue(api.store) as routed:
        await taken.add(tmp_path / "a.csv")
        await routed.add("encode", {}, target=routing.Target(capabilities=("gpu",)))
        room = Room("sale", api.store)
        await room.open(RoomOptions(newcomers_per_minute=0))
        await room.join(JoinRequest(key="ada", secret="secret", address="10.0.0.1"))
        seen = await _overview(api)
    assert {name: each["trouble"]["cause"] for name, each in seen.items()} == dict.fromkeys(
        ("jobqueue", "bridge", "sale"), "nobody"
    )
    sale = seen["sale"]
    assert (sale["product"], sale["ready"]) == ("waitingroom", 1)
    assert sale["trouble"]["text"].startswith("is served by no process")


async def test_many_in_trouble_are_asked_a_few_at_a_time_and_none_is_left_out(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(troubles, "AT_ONCE", 2)
    for name in "abcde":
        async with Queue(name, api.store) as queue:
            await queue.add_many([NewJob("send")])
            await queue.pause(by="anna")

    def named(seen: dict[str, Any]) -> int:
        return sum("by anna" in each["trouble"]["text"] for each in seen.values())

    assert [named(await _overview(api)) for _ in range(3)] == [2, 4, 5]


def _sample(*oldest_s: float, every_s: float = 10.0, **more: Any) -> QueueSample:
    points = [
        Point(n * every_s, 1, 0, 0, 0, 0.0, 1.0, 0.0, oldest) for n, oldest in enumerate(oldest_s)
    ]
    usual: dict[str, Any] = {
        "product": "bullmq",
        "name": "mail",
        "counts": {},
        "ready": 1,
        "paused": False,
    }
    rates = dict.fromkeys(("added_per_s", "completed_per_s", "failed_per_s"), 0.0)
    given: dict[str, Any] = usual | rates | {"workers": 1, "oldest_s": oldest_s[-1]} | more
    return QueueSample(**given, points=points)


@pytest.mark.parametrize(
    ("oldest_s", "is_behind"),
    [((30, 40, 50), True), ((30, 36, 41), True), ((30, 32, 34), False), ((1, 2, 3), False),
     ((300, 300, 300), False), ((30, 40), False)],
)  # fmt: skip
def test_a_queue_whose_longest_wait_grows_like_the_clock_falls_behind(
    oldest_s: tuple[float, ...], is_behind: bool
) -> None:
    found = plain(_sample(*oldest_s))
    assert (found is not None and found.cause == "behind") is is_behind


@pytest.mark.parametrize("name", ["mail", "Queue", "a queue of ours", "was"])
async def test_what_is_said_of_a_queue_leaves_out_its_name(api: ConsoleApi, name: str) -> None:
    async with Queue(name, api.store) as queue:
        await queue.pause(by="anna")
        found = await _trouble(api, name)
    assert found is not None
    assert found[1].startswith("was paused by anna at ")
    assert not found[1].endswith(".")


def test_the_page_has_a_word_for_every_trouble() -> None:
    parts = packaged("waystation.console").joinpath("pages/parts.js").read_text()
    causes = parts.partition("CAUSES = {")[2].partition("};")[0]
    words = set(re.findall(r"'?([a-z-]+)'?: \[", causes))
    assert words == {cause.value for cause in WEIGHTS}

"""Actions on all jobs that a search finds."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.bullmq.harness import Harness
from tests.console.harness import ConsoleApi
from tests.support.patience import LIMIT_S
from waystation import routing
from waystation.bullmq import Queue
from waystation.bullmq.redis.keys import QueueKeys
from waystation.console.actions import taking
from waystation.console.products.bullmq import BullmqQueue
from waystation.console.products.views import JobView


async def failed(api: ConsoleApi, error: str, *datas: Any, queue: str = "mail") -> list[str]:
    """Ids of jobs that failed for good with this error."""
    async with Queue(queue, api.store) as mail, _harness(api, queue) as harness:
        ids = [(await mail.add("send", data, attempts=1)).id for data in datas]
        for _ in ids:
            await harness.fail(await harness.claim_one(), error)
        await api.app.console.directory.look()
        return ids


@asynccontextmanager
async def _harness(api: ConsoleApi, queue: str = "mail") -> AsyncGenerator[Harness]:
    harness = Harness(api.store, QueueKeys(queue))
    try:
        yield harness
    finally:
        await harness.close()


async def _act(api: ConsoleApi, action: str, q: str, *, status: int = 200, **asked: Any) -> Any:
    return await api.post(f"search/actions/{action}", {"q": q, **asked}, status=status)


async def _counted_and_done(api: ConsoleApi, action: str, q: str) -> Any:
    counted = await _act(api, action, q, dry_run=True)
    return await _act(api, action, q, expected=counted["matched"], until=counted["until"])


async def _ended(api: ConsoleApi, id: str) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while True:
            [run] = [each for each in (await api.get("search/runs"))["runs"] if each["id"] == id]
            if run["state"] != "running":
                return run
            await asyncio.sleep(0.01)


async def test_all_that_match_are_counted_shown_and_run_again(api: ConsoleApi) -> None:
    wanted = await failed(api, "timeout of the gateway", *[{"tenant": "acme"}] * 7)
    await failed(api, "timeout of the gateway", {"tenant": "globex"})
    await failed(api, "no such address", {"tenant": "acme"})
    other = await failed(api, "timeout", {"tenant": "acme"}, queue="pay")
    counted = await _act(api, "retry", "error:timeout data.tenant:acme", dry_run=True)
    assert (counted["matched"], counted["done"], counted["more"]) == (8, 0, False)
    assert len(counted["examples"]) == taking.EXAMPLES
    assert [(each["queue"], each["matched"]) for each in counted["queues"]] == [
        ("mail", 7), ("pay", 1),
    ]  # fmt: skip
    done = await _counted_and_done(api, "retry", "error:timeout data.tenant:acme")
    assert (done["matched"], done["done"], done["left_alone"]) == (8, 8, 0)
    async with Queue("mail", api.store) as mail, Queue("pay", api.store) as pay:
        assert {job.id for job in await mail.get_jobs("waiting")} == set(wanted)
        assert [job.id for job in await pay.get_jobs("waiting")] == other
        assert (await mail.counts())["failed"] == 2


@pytest.mark.parametrize(
    ("action", "after"),
    [("promote", "waiting"), ("cancel", "failed"), ("remove", "unknown")],
)
async def test_delayed_jobs_that_match_are_promoted_cancelled_and_removed(
    api: ConsoleApi, action: str, after: str
) -> None:
    async with Queue("mail", api.store) as mail:
        jobs = [await mail.add("send", {"n": n % 2}, delay=3600) for n in range(4)]
        await api.app.console.directory.look()
        done = await _counted_and_done(api, action, "queue:mail data.n:1")
        assert done["done"] == 2
        assert [await mail.state(job.id) for job in jobs] == ["delayed", after] * 2


async def test_what_changed_after_it_was_found_is_left_alone_and_reported(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await failed(api, "timeout", *[{}] * 3)
    usual = BullmqQueue.change

    async def late(self: BullmqQueue, action: str, jobs: Sequence[JobView], **more: Any) -> int:
        async with Queue("mail", api.store) as mail:
            await mail.retry(ids[1])  # somebody else is quicker
        return await usual(self, action, jobs, **more)

    counted = await _act(api, "remove", "error:timeout", dry_run=True)
    monkeypatch.setattr(BullmqQueue, "change", late)
    done = await _act(api, "remove", "error:timeout", expected=3, until=counted["until"])
    assert (done["matched"], done["done"], done["left_alone"]) == (3, 2, 1)
    async with Queue("mail", api.store) as mail:
        states = [await mail.state(id) for id in ids]
    assert states == ["unknown", "waiting", "unknown"]


async def test_what_comes_after_the_count_is_left_alone(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        first = await mail.add("send", {}, delay=3600)
        counted = await _act(api, "remove", "name:send", dry_run=True)
        later = datetime.fromisoformat(counted["until"]) + timedelta(minutes=1)
        second = await mail.add("send", {}, delay=3600, created_at=later)
        done = await _act(api, "remove", "name:send", expected=1, until=counted["until"])
        assert done["done"] == 1
        assert await mail.state(first.id) == "unknown"
        assert await mail.state(second.id) == "delayed"


async def test_a_job_that_keeps_a_scheduler_going_is_left_alone(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        body = {"scheduler": "nightly", "pattern": "0 3 * * *", "name": "report"}
        await mail.add("first", {})
        await api.act("mail", "set-scheduler", **body)
        await api.app.console.directory.look()
        done = await _counted_and_done(api, "remove", "name:report")
        assert (done["done"], done["left_alone"]) == (0, 1)
        assert (await mail.counts())["delayed"] == 1


async def test_more_than_were_counted_are_refused_and_nothing_is_done(api: ConsoleApi) -> None:
    await failed(api, "timeout", {}, {})
    refused = await _act(api, "retry", "error:timeout", expected=1, status=412)
    assert refused["code"] == "CHANGED_MEANWHILE"
    uncounted = await _act(api, "retry", "error:timeout", status=422)
    assert "count first" in uncounted["detail"]
    async with Queue("mail", api.store) as mail:
        assert (await mail.counts())["failed"] == 2


async def test_many_are_changed_a_batch_at_a_time(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_AT_ONCE", 2)
    async with Queue("mail", api.store) as mail:
        await mail.add_many([("send", {"n": n}) for n in range(5)])
        await api.app.console.directory.look()
        counted = await _act(api, "remove", "queue:mail", dry_run=True)
        left, steps = counted["matched"], list[tuple[int, bool]]()
        while True:
            step = await _act(api, "remove", "queue:mail", expected=left, until=counted["until"])
            left -= step["done"]
            steps.append((step["done"], step["more"]))
            if not step["more"]:
                break
        assert steps == [(2, True), (2, True), (1, False)]
        assert (await mail.counts())["waiting"] == 0


async def test_all_are_changed_in_the_server_though_nobody_asks_again(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_AT_ONCE", 2)
    await failed(api, "timeout", *[{}] * 7)
    counted = await _act(api, "retry", "error:timeout", dry_run=True)
    asked = {"expected": counted["matched"], "until": counted["until"], "whole": True}
    started = await _act(api, "retry", "error:timeout", status=202, **asked)
    run = await _ended(api, started["id"])
    assert (run["state"], run["done"], run["matched"]) == ("done", 7, 7)
    async with Queue("mail", api.store) as mail:
        assert (await mail.counts())["waiting"] == 7
    entries = (await api.get("audit"))["entries"]
    assert sum(msgspec.json.decode(each["after"])["done"] for each in entries) == 7


async def test_a_run_is_stopped_between_two_batches(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_AT_ONCE", 1)
    await failed(api, "timeout", *[{}] * 5)
    going, changes = asyncio.Event(), BullmqQueue.change

    async def change(self: BullmqQueue, action: str, jobs: Sequence[JobView], **more: Any) -> int:
        going.set()
        await stopped.wait()
        return await changes(self, action, jobs, **more)

    stopped = asyncio.Event()
    monkeypatch.setattr(BullmqQueue, "change", change)
    asked = {"expected": 5, "whole": True}
    started = await _act(api, "retry", "error:timeout", status=202, **asked)
    await going.wait()
    assert (await api.here.delete(f"/api/v1/search/runs/{started['id']}")).status_code == 200
    stopped.set()
    while not (run := await _ended(api, started["id"]))["done"]:
        await asyncio.sleep(0.01)
    async with Queue("mail", api.store) as mail:
        assert (await mail.counts())["waiting"] == 1
    assert (run["state"], run["done"]) == ("stopped", 1)


async def test_a_run_that_finds_more_than_were_counted_does_nothing(api: ConsoleApi) -> None:
    await failed(api, "timeout", *[{}] * 3)
    started = await _act(api, "retry", "timeout", status=202, expected=2, whole=True)
    run = await _ended(api, started["id"])
    assert (run["state"], run["done"]) == ("broken", 0)
    assert "3 match by now" in run["error"]
    await _act(api, "retry", "timeout", status=422, whole=True)


async def test_jobs_of_every_product_that_has_the_action_are_concerned(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail, routing.Queue(api.store) as routed:
        job = await mail.add("send", {"tenant": "acme"})
        other = await routed.add("encode", {"tenant": "acme"})
        await api.app.console.directory.look()
        done = await _counted_and_done(api, "cancel", "data.tenant:acme")
        assert done["done"] == 2
        assert await mail.state(job.id) == "failed"
        assert await routed.state(other.id) not in ("waiting", "active")
        counted = await _act(api, "promote", "data.tenant:acme", dry_run=True)
        assert counted["matched"] == 0


async def test_who_did_it_is_written_down_with_the_search(api: ConsoleApi) -> None:
    await failed(api, "timeout", {}, {})
    counted = await _act(api, "retry", "error:timeout", dry_run=True)
    assert (await api.get("audit"))["entries"] == []
    reason = "the gateway is back"
    asked: dict[str, Any] = {"expected": 2, "until": counted["until"], "reason": reason}
    await _act(api, "retry", "error:timeout", **asked)
    [entry] = (await api.get("audit"))["entries"]
    after = msgspec.json.decode(entry["after"])
    assert (entry["action"], after["q"], after["done"]) == ("retry", "error:timeout", 2)
    assert after["reason"] == reason


async def test_a_viewer_and_a_key_for_one_queue_may_not_act_on_a_search(
    guarded: ConsoleApi,
) -> None:
    [id] = await failed(guarded, "timeout", {})
    for who in (
        await guarded.operator("viewer"),
        await guarded.operator("operator", ["bullmq/pay"]),
    ):
        for body in ({"dry_run": True}, {"expected": 9}):
            answer = await who.post("/api/v1/search/actions/retry", json={"q": "timeout", **body})
            assert answer.status_code == 403
    async with Queue("mail", guarded.store) as mail:
        assert await mail.state(id) == "failed"


async def test_an_instant_without_a_time_zone_is_refused(api: ConsoleApi) -> None:
    asked = {"dry_run": True, "until": "2026-11-16T12:00:00"}
    refused = await _act(api, "retry", "x", status=422, **asked)
    assert "time zone" in refused["detail"]


@pytest.mark.parametrize(
    ("action", "q", "status"),
    [("drain", "x", 404), ("retry", "", 400), ("retry", "x" * 401, 400)],
)
async def test_what_cannot_be_is_refused(api: ConsoleApi, action: str, q: str, status: int) -> None:
    await _act(api, action, q, dry_run=True, status=status)


async def test_actions_on_named_jobs_say_how_many_were_changed(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail, _harness(api) as harness:
        held = await mail.add("send", {})
        await harness.claim_one()
        waiting = await mail.add("send", {})
        ids = [held.id, waiting.id, "nobody"]
        assert (await api.act("mail", "remove", ids=ids, dry_run=True))["affected"] == 1
        assert (await api.act("mail", "remove", ids=ids))["affected"] == 1
        assert await mail.state(held.id) == "active"


async def test_the_jobs_of_a_group_of_failures_are_found_and_removed_by_it(api: ConsoleApi) -> None:
    refused = await failed(api, "order 17 was refused", *range(3))
    refused += await failed(api, "order 18 was refused", 3)
    kept = await failed(api, "no answer", 4)
    await api.app.console.sampler.take()
    groups = (await api.get("failures"))["groups"]
    assert [each["count"] for each in groups] == [4, 1]
    q = f'failure:{groups[0]["id"]} queue:"mail" product:bullmq'
    found = await api.get("search", params={"q": q})
    assert {each["job"]["id"] for each in found["hits"]} == set(refused)
    assert (await api.get("history/search", params={"q": q}))["available"] is False
    assert (await _counted_and_done(api, "remove", q))["done"] == 4
    async with Queue("mail", api.store) as mail:
        assert [job.id for job in await mail.get_jobs("failed")] == kept


async def test_a_whole_state_is_counted_without_reading_its_jobs(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_COUNTED", 2)
    async with Queue("mail", api.store) as mail, Queue("sms", api.store) as sms:
        for queue, count in ((mail, 5), (sms, 3)):
            for _ in range(count):
                await queue.add("send")
        await mail.add("send", priority=2)
        await api.app.console.directory.look()
        counted = await _act(api, "remove", "state:waiting", dry_run=True)
        assert (counted["matched"], counted["more"]) == (8, False)
        assert [each["matched"] for each in counted["queues"]] == [5, 3]
        one = await _act(api, "remove", "state:waiting queue:mail name:send", dry_run=True)
        assert (one["matched"], one["more"]) == (2, True)

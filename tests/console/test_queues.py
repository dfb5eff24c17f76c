"""Queues and jobs of all products over the HTTP API."""

import asyncio
import base64
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.console.harness import ConsoleApi
from tests.support.patience import limit
from waystation import bullmq, files, routing
from waystation.bullmq import Job, Keep, NewJob, PayloadOptions, Queue, Schedule
from waystation.console.measures import Live
from waystation.console.products import bullmq_workers
from waystation.console.routes import live
from waystation.console.why import why
from waystation.errors import InvalidOption
from waystation.waitingroom import Room, RoomOptions

SEND = NewJob("send", {})


async def _fail(queue: Queue, *names: str, error: str = "no answer") -> list[str]:
    """Jobs that have failed for good."""
    ids = [(await queue.add(name, {"tenant": "acme"}, attempts=1)).id for name in names]

    async def handler(job: Job) -> None:
        await job.log("trying")
        raise ConnectionError(error)

    async with bullmq.Worker(queue.name, handler, queue._given):  # pyright: ignore[reportPrivateUsage]
        for id in ids:
            with pytest.raises(bullmq.JobFailed):
                await queue.wait(id, limit(60))
    return ids


async def test_the_overview_finds_queues_of_every_product_by_itself(
    api: ConsoleApi, tmp_path: Path
) -> None:
    async with Queue("mail", api.store) as mail, routing.Queue(api.store) as routed:
        await mail.add_many([SEND] * 3)
        await mail.add("later", {}, delay=3600)
        await routed.add("encode", {})
        file = tmp_path / "a.csv"
        file.write_text("1")
        async with files.Queue(api.store) as added:
            await added.add(file)
        page = await api.get("overview")
    found = {(each["product"], each["name"]): each for each in page["queues"]}
    assert set(found) == {("bullmq", "mail"), ("routing", "bridge"), ("files", "jobqueue")}
    seen = found["bullmq", "mail"]
    assert (seen["ready"], seen["counts"]["delayed"], seen["paused"]) == (3, 1, False)
    assert seen["oldest_s"] >= 0
    assert found["routing", "bridge"]["counts"]["waiting"] == 1
    assert found["files", "jobqueue"]["counts"]["waiting"] == 1


async def test_rates_come_from_what_was_written_between_two_samples(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("send", {})
        await api.app.console.sampler.take()
        await mail.add_many([SEND] * 50)
        await api.app.console.sampler.take()
        [seen] = (await api.get("overview"))["queues"]
    assert seen["added_per_s"] > 0
    assert [point[1] for point in seen["points"]] == [1, 51]


@pytest.mark.parametrize("product", ["bullmq", "routing", "files"])
async def test_a_dry_run_counts_what_the_action_then_does(
    api: ConsoleApi, product: str, tmp_path: Path
) -> None:
    place, dead = await _three_dead(api, product, tmp_path)
    counted = {
        "retry": {"ids": [dead[0], dead[1], "no-such-job"]},
        "retry-all": {},
        **({"clean": {"state": "failed", "older_than_s": 3600}} if product == "bullmq" else {}),
    }
    for action, asked in counted.items():
        asked |= {"confirm": place.rpartition("/")[2]}
        planned = await api.post(f"{place}/actions/{action}", {**asked, "dry_run": True})
        done = await api.post(f"{place}/actions/{action}", asked)
        assert (
            done["affected"]
            == planned["affected"]
            == {"retry": 2, "retry-all": 1, "clean": 0}[action]
        )


async def _three_dead(api: ConsoleApi, product: str, home: Path) -> tuple[str, list[str]]:
    """A queue with three dead jobs, and nobody who works on it any more."""

    async def refuses(job: Any) -> None:
        raise ValueError("no such card")

    async def ended(queue: Any, ids: list[str]) -> list[str]:
        async with asyncio.timeout(limit(60)):
            while {await queue.state(id) for id in ids} - {"failed", "dead"}:
                await asyncio.sleep(0.02)
        return ids

    if product == "bullmq":
        async with Queue("mail", api.store) as queue, bullmq.Worker("mail", refuses, api.store):
            ids = [(await queue.add("a", {}, attempts=1)).id for _ in range(3)]
            return "queues/bullmq/mail", await ended(queue, ids)
    if product == "routing":
        once = routing.Retry(attempts=1)
        async with routing.Queue(api.store) as jobs, routing.Worker({"a": refuses}, api.store):
            ids = [(await jobs.add("a", {}, retry=once)).id for _ in range(3)]
            return "queues/routing/bridge", await ended(jobs, ids)
    async with files.Queue(api.store) as lane:
        ids = list[str]()
        async with files.Worker(refuses, api.store, max_retries=0):
            for number in range(3):
                (home / str(number)).write_text("x")
                added = await lane.add(home / str(number))
                assert added is not None
                ids.append(added.id)
            return "queues/files/jobqueue", await ended(lane, ids)


async def test_a_file_is_shown_whatever_its_name_and_its_failure(
    api: ConsoleApi, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"bad\xff.txt")
    odd.write_text("x")
    _, [dead, *_] = await _three_dead(api, "files", tmp_path)
    async with files.Queue(api.store) as lane:
        added = await lane.add(odd)
    assert added is not None
    jobs = "queues/files/jobqueue/jobs"

    [waits] = (await api.get(f"{jobs}?state=waiting"))["jobs"]
    found = await api.get("search?q=bad")
    details = [await api.get(f"{jobs}/{id}") for id in (added.id, dead)]
    causes = [(await api.get(f"{jobs}/{id}/why"))["cause"] for id in (added.id, dead)]

    assert waits["name"] == r"bad\xff.txt"
    assert [each["job"]["id"] for each in found["hits"]] == [added.id]
    assert details[0]["data"]["path"] == added.filepath
    assert details[1]["job"]["error"] == "ValueError: no such card"
    assert causes == ["nobody", "failed"]


async def test_a_room_that_cannot_be_read_hides_no_other(api: ConsoleApi) -> None:
    for name in ("fair", "sale"):
        await Room(name, api.store).open(RoomOptions())
    await api.store.ask("SET", "queue:{fair}:positions", "of another type")
    assert [each["name"] for each in (await api.get("rooms"))["rooms"]] == ["sale"]
    assert [each.name for each in await Live(api.store).rows()] == ["sale"]
    await api.store.ask("DEL", "queue:{fair}:positions")


async def test_a_rate_of_a_room_is_set_only_by_who_names_one(api: ConsoleApi) -> None:
    room = Room("sale", api.store)
    await room.open(RoomOptions(admission_rate=2.0))
    for action, asked in (("rate", {}), ("pause", {"rate_per_min": 0})):
        refused = await api.post(f"rooms/sale/actions/{action}", asked, status=422)
        assert "rate needs rate_per_min" in refused["detail"]
    assert (await api.get("rooms/sale"))["rate_per_min"] == 120
    assert (await api.post("rooms/sale/actions/rate", {"rate_per_min": 0}))["rate_per_min"] == 0


async def test_an_option_that_an_action_does_not_know_is_refused(api: ConsoleApi) -> None:
    await Queue("mail", api.store).add("a")
    for action, asked in (
        ("pause", {"ids": ["1"]}),
        ("retry-all", {"older_than_s": 5}),
        ("clean", {"state": "waiting", "older_than_s": 5, "confirm": "mail"}),
        ("promote", {"until": "2026-01-01T00:00:00Z", "ids": ["1"]}),
    ):
        answer = await api.post(f"queues/bullmq/mail/actions/{action}", asked, status=422)
        assert "takes no" in answer["detail"] or "older_than_s is for" in answer["detail"]


async def test_queues_that_are_not_followed_are_counted_and_can_be_opened(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.app.console.directory, "_most", 2)
    for name in ("a", "b", "c"):
        await Queue(name, api.store).add("send")
    seen = await api.get("overview")
    assert ([each["name"] for each in seen["queues"]], seen["left_out"]) == (["a", "b"], 1)
    assert (await api.get("queues/bullmq/c"))["counts"]["waiting"] == 1
    assert len(await Live(api.store).rows()) == 3


@pytest.mark.parametrize("name", [".", "..", "a{b", "a\nb"])
async def test_a_name_that_we_refuse_hides_no_other_queue(api: ConsoleApi, name: str) -> None:
    with pytest.raises(InvalidOption):
        Queue(name, api.store)
    await Queue("mail", api.store).add("send")
    # As another client may write it.
    await api.store.ask("HSET", f"bull:{name}:meta", "version", "bullmq:6.7.0")
    assert [each["name"] for each in (await api.get("overview"))["queues"]] == ["mail"]


async def test_a_queue_that_is_deleted_disappears(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("send", {})
        directory = api.app.console.directory
        await directory.look()
        assert [each.name for each in directory.every()] == ["mail"]
        await mail.obliterate()
        await directory.look()
        assert directory.every() == []


async def test_a_job_shows_its_data_its_attempts_its_log_and_its_traceback(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        [id] = await _fail(mail, "send")
        page = await api.get(f"queues/bullmq/mail/jobs/{id}")
    assert page["data"] == {"tenant": "acme"}
    assert page["logs"] == ["trying"]
    assert page["job"]["state"] == "failed"
    assert page["job"]["error"] == "no answer"
    assert "ConnectionError: no answer" in page["traces"][0]
    assert page["timeline"][0]["what"] == "added"
    assert page["timeline"][-1]["what"] in ("failed", "retries-exhausted")
    assert page["actions"] == ["retry", "remove", "edit", "clone"]


async def test_jobs_are_listed_by_state_a_page_at_a_time(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add_many([("send", {"n": n}) for n in range(5)])
        first = await api.get("queues/bullmq/mail/jobs?state=waiting&limit=2")
        rest = await api.get("queues/bullmq/mail/jobs?state=waiting&offset=2&limit=10")
    assert first["total"] == 5
    assert [job["data"] for job in first["jobs"]] == ['{"n":0}', '{"n":1}']
    assert [job["data"] for job in rest["jobs"]] == ['{"n":2}', '{"n":3}', '{"n":4}']


async def test_names_and_ids_with_every_character_are_found(api: ConsoleApi) -> None:
    name, id = "mail/eu west?#%2F", "order/7é?&=#"
    async with Queue(name, api.store) as mail:
        await mail.add("send", {}, job_id=id)
        place = f"queues/bullmq/{quote(name, safe='')}/jobs/{quote(id, safe='')}"
        assert (await api.get(place))["job"]["id"] == id


async def test_actions_count_first_and_then_do_what_they_counted(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await _fail(mail, "send", "send")
        counted = await api.act("mail", "retry-all", dry_run=True)
        assert counted == {"action": "retry-all", "affected": 2, "done": False}
        assert (await mail.counts())["failed"] == 2
        await api.act("mail", "retry-all", expected=2)
        counts = await mail.counts()
    assert (counts["failed"], counts["waiting"]) == (0, 2)


async def test_an_action_is_refused_when_more_is_there_than_was_counted(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("send", {})
        counted = await api.act("mail", "drain", dry_run=True)
        await mail.add("send", {})
        body = {"expected": counted["affected"], "confirm": "mail"}
        refused = await api.post("queues/bullmq/mail/actions/drain", body, status=412)
        assert refused["code"] == "CHANGED_MEANWHILE"
        assert (await mail.counts())["waiting"] == 2


async def test_what_nothing_brings_back_needs_the_name_of_the_queue(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("send", {})
        for action in ("drain", "clean", "obliterate"):
            place = f"queues/bullmq/mail/actions/{action}"
            refused = await api.post(place, {"confirm": "male"}, status=422)
            assert refused["code"] == "NOT_CONFIRMED"
        assert (await mail.counts())["waiting"] == 1
        await api.act("mail", "obliterate", confirm="mail")
        assert (await mail.counts())["waiting"] == 0


@pytest.mark.parametrize("state", ["waiting", "delayed"])
async def test_a_job_is_promoted_and_removed(api: ConsoleApi, state: str) -> None:
    async with Queue("mail", api.store) as mail:
        id = (await mail.add("send", {}, delay=3600)).id
        if state == "waiting":
            assert (await api.act("mail", "promote", ids=[id]))["affected"] == 1
        assert await mail.state(id) == state
        await api.act("mail", "remove", ids=[id])
        assert await mail.get_job(id) is None


async def test_a_queue_is_paused_resumed_and_limited(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("send", {})
        await api.act("mail", "pause")
        assert await mail.is_paused()
        await api.act("mail", "resume")
        assert not await mail.is_paused()
        await api.act("mail", "set-concurrency", max=7)
        await api.act("mail", "set-rate", max=10, duration_s=2)
        about = (await api.get("queues/bullmq/mail"))["about"]
        assert (about["concurrency"], about["rate_limit"]) == (7, {"max": 10, "ms": 2000})
        await api.act("mail", "set-concurrency", max=0)
        assert await mail.limits.get_concurrency() is None


async def test_schedulers_are_listed_run_now_and_removed(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        schedule = Schedule(pattern="0 3 * * *", tz="Europe/Vienna")
        await mail.schedulers.upsert("nightly", schedule, name="report", data={"all": True})
        [seen] = (await api.get("schedulers"))["schedulers"]
        assert (seen["pattern"], seen["tz"]) == ("0 3 * * *", "Europe/Vienna")
        assert datetime.fromisoformat(seen["next_at"]) > datetime.now(UTC)
        await api.act("mail", "run-scheduler", scheduler="nightly")
        [job] = await mail.get_jobs("waiting")
        assert (job.name, job.data) == ("report", {"all": True})
        await api.act("mail", "remove-scheduler", scheduler="nightly")
        assert await mail.schedulers.count() == 0


async def test_a_scheduler_is_made_and_changed_and_keeps_what_is_not_asked_for(
    api: ConsoleApi,
) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("first", {})
        asked: dict[str, Any] = {"scheduler": "nightly", "name": "report", "data": {"all": True}}
        await api.act("mail", "set-scheduler", **asked, pattern="0 3 * * *", tz="Europe/Vienna")
        await mail.schedulers.upsert(
            "nightly", Schedule(pattern="0 3 * * *", limit=9), name="report", data={"all": True},
            attempts=7, backoff=4, remove_on_complete=Keep(age=60),
        )  # fmt: skip
        await api.act("mail", "set-scheduler", scheduler="nightly", every_s=3600)
        changed = await mail.schedulers.get("nightly")
        assert changed is not None
        assert (changed.every_ms, changed.pattern, changed.limit) == (3_600_000, None, 9)
        assert (changed.name, changed.data) == ("report", {"all": True})
        await api.act("mail", "run-scheduler", scheduler="nightly")
        job = next(each for each in await mail.get_jobs("waiting") if each.name == "report")
        assert (job.max_attempts, job.options.raw["removeOnComplete"]) == (7, {"age": 60})


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"pattern": "0 3 * * *", "every_s": 5}, "either a pattern or every_s"),
        ({}, "either a pattern or every_s"),
        ({"pattern": "every day"}, "pattern"),
        ({"pattern": "0 3 * * *", "tz": "Mars/Olympus"}, "Mars/Olympus"),
        ({"pattern": "0 3 * * *", "scheduler": ""}, "needs an id"),
    ],
)
async def test_a_scheduler_that_cannot_be_is_refused_and_nothing_changes(
    api: ConsoleApi, asked: dict[str, Any], says: str
) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("first", {})
        body = {"scheduler": "nightly", **asked}
        refused = await api.post("queues/bullmq/mail/actions/set-scheduler", body, status=422)
        assert says in refused["detail"]
        assert await mail.schedulers.count() == 0


async def test_a_scheduler_with_options_that_cannot_be_kept_is_left_alone(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.schedulers.upsert("nightly", Schedule(every=60), size_limit=100)
        body = {"scheduler": "nightly", "every_s": 5}
        refused = await api.post("queues/bullmq/mail/actions/set-scheduler", body, status=400)
        assert "sizeLimit" in refused["detail"]
        known = await mail.schedulers.get("nightly")
        assert known is not None
        assert known.every_ms == 60_000


async def test_a_scheduler_is_paused_and_resumed(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.schedulers.upsert("nightly", Schedule(pattern="0 3 * * *"), name="report")
        await api.act("mail", "pause-scheduler", scheduler="nightly", reason="not tonight")
        [seen] = (await api.get("schedulers"))["schedulers"]
        assert (seen["next_at"], seen["paused_by"]) == (None, "this machine")
        assert datetime.fromisoformat(seen["paused_at"]) <= datetime.now(UTC)
        assert await mail.get_jobs("delayed") == []
        await api.act("mail", "resume-scheduler", scheduler="nightly")
        [seen] = (await api.get("schedulers"))["schedulers"]
        assert seen["paused_at"] is None
        assert datetime.fromisoformat(seen["next_at"]) > datetime.now(UTC)
        place = "queues/bullmq/mail/actions"
        body = {"scheduler": "nightly"}
        assert (
            "not paused"
            in (await api.post(f"{place}/resume-scheduler", body, status=409))["detail"]
        )
        await api.post(f"{place}/pause-scheduler", {"scheduler": "nobody"}, status=404)


async def test_other_languages_add_jobs(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("first", {})
        body: dict[str, Any] = {
            "name": "send", "data": {"to": "a@b.c"}, "options": {"attempts": 3, "priority": 2},
        }  # fmt: skip
        added = await api.post("queues/bullmq/mail/jobs", body, status=201)
        job = await mail.get_job(added["id"])
        assert job is not None
        assert (job.data, job.max_attempts, job.priority) == ({"to": "a@b.c"}, 3, 2)
        wrong = {"name": "send", "options": {"colour": 1}}
        refused = await api.post("queues/bullmq/mail/jobs", wrong, status=400)
        assert "colour" in refused["detail"]


async def test_workers_are_listed_with_their_queues(api: ConsoleApi) -> None:
    async with (
        Queue("mail", api.store) as mail,
        bullmq.Worker("mail", _noop, api.store, name="anna"),
    ):
        # Once it has worked, it is connected.
        await mail.wait((await mail.add("send", {})).id, limit(60))
        found = (await api.get("queues/bullmq/mail/workers"))["workers"]
        assert {each["name"] for each in found} == {"anna"}
        everybody = (await api.get("workers"))["workers"]
        assert {(each["name"], *each["queues"]) for each in everybody} == {("anna", "mail")}


async def test_a_worker_is_shown_with_the_jobs_that_it_holds(api: ConsoleApi) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def handler(job: Job) -> None:
        begun.set()
        await may_end.wait()

    async with (
        Queue("mail", api.store) as mail,
        bullmq.Worker("mail", handler, api.store, name="anna"),
    ):
        job = await mail.add("send", {})
        await asyncio.wait_for(begun.wait(), limit(60))
        async with asyncio.timeout(limit(60)):
            # It is connected when it waits for the next job.
            while not (seen := await _only_worker(api))["alive"]:
                await asyncio.sleep(0.05)
        assert (seen["name"], seen["active"]) == ("anna", 1)
        [held] = seen["holds"]
        assert (held["id"], held["name"], held["queue"]) == (job.id, "send", "mail")
        assert held["started_at"]
        may_end.set()
        await mail.wait(job.id, limit(60))
        [seen] = (await api.get("workers"))["workers"]
        assert (seen["active"], seen["holds"]) == (0, [])


async def _only_worker(api: ConsoleApi) -> dict[str, Any]:
    [seen] = (await api.get("queues/bullmq/mail/workers"))["workers"]
    return seen


async def test_a_worker_that_is_gone_is_shown_as_long_as_it_holds_jobs(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        job = await mail.add("send", {})
        await api.store.ask("LREM", "bull:mail:wait", 0, job.id)
        await api.store.ask("LPUSH", "bull:mail:active", job.id)
        await api.store.ask("HSET", f"bull:mail:{job.id}", "pb", "gone")
        seen = await _only_worker(api)
    assert (seen["name"], seen["alive"], seen["active"]) == ("gone", False, 1)
    assert seen["is_complete"]


async def test_a_worker_of_more_jobs_than_are_looked_at_holds_at_least_those(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bullmq_workers, "MOST_HELD", 2)
    async with Queue("mail", api.store) as mail:
        for _ in range(3):
            job = await mail.add("send", {})
            await api.store.ask("LMOVE", "bull:mail:wait", "bull:mail:active", "RIGHT", "LEFT")
            await api.store.ask("HSET", f"bull:mail:{job.id}", "pb", "gone")
        seen = await _only_worker(api)
    assert (seen["active"], seen["is_complete"]) == (2, False)


async def test_a_flood_of_events_is_told_as_a_gap(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_EVENTS", 2)
    monkeypatch.setattr(live, "EVERY_S", 0)
    async with Queue("mail", api.store) as mail, aclosing(_followed(api)) as stream:
        await mail.add("send")
        coming = asyncio.ensure_future(anext(stream))
        while not (await asyncio.wait({coming}, timeout=0.05))[0]:
            await api.store.ask("EVAL", _FLOOD, 1, "bull:mail:events")
        _, events = await coming
    assert [each["event"] for each in events] == ["gap", "drained", "drained"]


_FLOOD = "for _ = 1, 3 do redis.call('XADD', KEYS[1], '*', 'event', 'drained') end"


async def _followed(api: ConsoleApi) -> AsyncGenerator[Any]:
    queue = await api.app.console.directory.find("bullmq", "mail")
    async for each in live.Live(api.app.console)._events(queue):  # pyright: ignore
        yield each


async def _noop(job: Job) -> None:
    pass


async def test_a_flow_is_a_tree(api: ConsoleApi) -> None:
    async with bullmq.FlowProducer(api.store) as flows:
        child = bullmq.FlowNode(name="resize", queue="images")
        made = await flows.add(bullmq.FlowNode(name="album", queue="mail", children=[child]))
        tree = await api.get(f"queues/bullmq/mail/jobs/{made.job.id}/flow")
    assert (tree["name"], tree["state"]) == ("album", "waiting-children")
    assert [each["name"] for each in tree["children"]] == ["resize"]


async def test_coverage_says_what_no_worker_has(api: ConsoleApi) -> None:
    async with routing.Queue(api.store) as queue:
        await queue.add("encode", {}, target=routing.Target(capabilities=("gpu",)))
        [seen] = (await api.get("coverage"))["covered"]
    assert (seen["type"], seen["workers"]) == ("encode", 0)
    assert seen["reasons"]


async def test_why_says_in_a_sentence_where_a_job_is(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        id = (await mail.add("send", {})).id
        await mail.pause()
        page = await api.get(f"queues/bullmq/mail/jobs/{id}/why")
        assert page["cause"] == "paused"
        assert page["sentence"].endswith(".")
        assert (await api.get("queues/bullmq/mail/why"))["cause"] == "paused"
        answer = await api.here.get("/api/v1/queues/bullmq/mail/jobs/nobody/why")
        assert answer.status_code == 404


async def test_a_job_is_cancelled_wherever_it_is(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        id = (await mail.add("send", {})).id
        await api.act("mail", "cancel", ids=[id], reason="not wanted")
        page = await api.get(f"queues/bullmq/mail/jobs/{id}")
    assert page["job"]["state"] == "failed"
    assert "not wanted" in page["job"]["error"]


async def test_a_job_that_was_completed_after_all_shows_no_error(api: ConsoleApi) -> None:
    async def handler(job: Job) -> str:
        if job.attempt == 1:
            raise ConnectionError("no answer")
        return "sent"

    async with Queue("mail", api.store) as mail, bullmq.Worker("mail", handler, api.store):
        job = await mail.add("send", {}, attempts=2, backoff=None)
        await mail.wait(job.id, limit(60))
        await api.store.ask("DEL", "bull:mail:events")
        [listed] = (await api.get("queues/bullmq/mail/jobs?state=completed"))["jobs"]
        shown = await api.get(f"queues/bullmq/mail/jobs/{job.id}")
    assert listed["error"] is None
    assert [each["what"] for each in shown["timeline"]] == ["added", "active", "completed"]


async def test_a_sealed_payload_is_shown_as_it_is_stored_with_a_sentence(api: ConsoleApi) -> None:
    payloads = PayloadOptions(keys="k1=" + base64.b64encode(b"1" * 32).decode())
    async with Queue("mail", api.store, payloads=payloads) as mail:
        job = await mail.add("send", {"to": "ada"})
        shown = await api.get(f"queues/bullmq/mail/jobs/{job.id}")
        [answer] = await why(api.store, f"mail/{job.id}")
    assert shown["data"].keys() == {"$payload"}
    assert shown["facts"]["payload"] == "the data is encrypted with the key k1"
    assert answer.evidence["payload"] == "the data is encrypted with the key k1"


async def test_why_says_how_a_whole_directory_moves(api: ConsoleApi, tmp_path: Path) -> None:
    async def shown() -> tuple[str, str]:
        answer = await api.get("queues/files/jobqueue/why")
        return answer["cause"], answer["sentence"]

    async with files.Queue(api.store) as added:
        assert await shown() == ("empty", "Queue jobqueue has nothing to do now.")
        file = tmp_path / "a.csv"
        file.write_text("1")
        await added.add(file)
        said = "Queue jobqueue has 1 file to do, and nobody works on it: no worker is alive."
        assert await shown() == ("nobody", said)


async def test_why_says_how_a_whole_namespace_moves(api: ConsoleApi) -> None:
    async with routing.Queue(api.store) as queue:
        answer = await api.get("queues/routing/bridge/why")
        assert (answer["cause"], answer["sentence"]) == (
            "empty",
            "Queue bridge has no job that waits.",
        )
        await queue.add("encode", {})
        await queue.add("encode", {})
        await queue.add("translate", {})
        answer = await api.get("queues/routing/bridge/why")
    assert answer["cause"] == "nobody"
    start = "Queue bridge has 3 waiting jobs, of which 3 cannot start; those of type encode: "
    assert answer["sentence"].startswith(start)

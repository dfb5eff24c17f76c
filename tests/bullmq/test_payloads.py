"""Data and results of plain queues that are encrypted, or kept outside the store."""

import ast
import asyncio
import base64
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.support.project import ROOT
from tests.support.stored_payloads import files, stored
from waystation.bullmq import (
    FlowNode,
    FlowProducer,
    Job,
    JobFailed,
    ManualWorker,
    PayloadOptions,
    Queue,
    Schedule,
    SyncJob,
    UnreadableData,
    Worker,
)
from waystation.errors import InvalidInput, InvalidOption
from waystation.sync import FlowProducer as BlockingFlows
from waystation.sync import Queue as BlockingQueue

KEYS = "k1=" + base64.b64encode(b"1" * 32).decode()
SEALED = PayloadOptions(keys=KEYS)
NOW = timedelta(0)


def echo(job: Job | SyncJob) -> Any:
    return job.data["word"][::-1]


async def echo_async(job: Job) -> Any:
    return echo(job)


def echo_all(jobs: Sequence[SyncJob]) -> list[Any]:
    return [ValueError("no") if "word" not in job.data else echo(job) for job in jobs]


async def waited(queue: Queue, *jobs: Any) -> list[Any]:
    async with asyncio.timeout(LIMIT_S):
        return await asyncio.gather(*(queue.wait(each.id) for each in jobs), return_exceptions=True)


@pytest.mark.parametrize(
    ("handler", "process"),
    [(echo_async, False), (echo, False), (echo, True)],
    ids=["coroutine", "thread", "process"],
)
async def test_a_handler_and_its_caller_see_them_as_they_are(
    handler: Callable[[Any], Any], process: bool, redis: Redis, redis_url: str
) -> None:
    async with (
        Queue("mail", redis_url, payloads=SEALED) as queue,
        Worker("mail", handler, redis_url, process=process, payloads=SEALED) as worker,
    ):
        calls: list[Any] = []
        worker.on("completed", lambda job, result: calls.append((job.data, job.result, result)))
        job = await queue.add("echo", {"word": "secret"})
        assert job.data == {"word": "secret"}
        assert await waited(queue, job) == ["terces"]
        found = await queue.get_job(job.id)
        text = await stored(redis)
    assert calls == [({"word": "secret"}, "terces", "terces")]
    assert found is not None
    assert (found.data, found.result) == ({"word": "secret"}, "terces")
    assert b"secret" not in text
    assert b"terces" not in text


async def test_who_has_no_keys_sees_what_is_stored(redis_url: str) -> None:
    async with Queue("mail", redis_url, payloads=SEALED) as queue:
        job = await queue.add("echo", {"word": "secret"})
    async with Queue("mail", redis_url) as others:
        found = await others.get_job(job.id)
    assert found is not None
    assert found.data["$payload"]["key"] == "k1"


async def test_a_worker_without_the_keys_fails_a_job_once_and_says_why(redis_url: str) -> None:
    async with Queue("mail", redis_url, payloads=SEALED) as queue:
        job = await queue.add("echo", {"word": "secret"}, attempts=5)
        async with Worker("mail", echo, redis_url):
            [error] = await waited(queue, job)
        assert "encrypted with the key 'k1', which is not in keys" in str(error)
        await job.refresh()
        assert job.attempts_made == 1
        await job.retry()
        async with Worker("mail", echo, redis_url, payloads=SEALED):
            assert await waited(queue, job) == ["terces"]


async def test_what_others_add_as_it_is_runs_as_well(redis_url: str) -> None:
    async with (
        Queue("mail", redis_url) as others,
        Queue("mail", redis_url, payloads=SEALED) as queue,
        Worker("mail", echo, redis_url, payloads=SEALED),
    ):
        job = await others.add("echo", {"word": "node"})
        assert await waited(queue, job) == ["edon"]


async def test_large_ones_are_kept_in_a_directory_until_nobody_needs_them(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    payloads = PayloadOptions(blobs=tmp_path, above=50)
    async with (
        Queue("mail", redis_url, payloads=payloads) as queue,
        Worker("mail", echo, redis_url, payloads=payloads),
    ):
        small, large = await queue.add_many([("echo", {"word": "s"}), ("echo", {"word": "x" * 99})])
        assert large.data == {"word": "x" * 99}
        assert await waited(queue, small, large) == ["s", "x" * 99]
        assert len(files(tmp_path)) == 2
        assert b"x" * 50 not in await stored(redis)
        assert await queue.sweep_blobs(older=NOW) == 0
        await queue.remove(large.id)
        assert await queue.sweep_blobs(older=NOW, dry_run=True) == 2
        assert await queue.sweep_blobs() == 0  # a week has not passed
        assert await queue.sweep_blobs(older=NOW) == 2
    assert files(tmp_path) == []


async def test_a_parent_in_another_queue_keeps_the_blob_of_its_child(
    redis_url: str, tmp_path: Path
) -> None:
    payloads = PayloadOptions(blobs=tmp_path, above=50)
    seen: list[Any] = []

    async def total(job: Job) -> int:
        seen.append(list((await job.children_values()).values()))
        seen.append([each.result for each in await job.children_results()])
        seen.append(list((await job.get_dependencies("processed")).children.values()))
        return len(seen)

    async with (
        FlowProducer(redis_url, payloads=payloads) as flows,
        Queue("parts", redis_url, payloads=payloads) as parts,
        Queue("totals", redis_url, payloads=payloads) as totals,
    ):
        part = FlowNode(name="part", queue="parts", data={"word": "x" * 99})
        flow = await flows.add(FlowNode(name="total", queue="totals", children=[part]))
        assert flow.children[0].job.data == {"word": "x" * 99}
        async with Worker("parts", echo, redis_url, payloads=payloads, remove_on_complete=True):
            async with asyncio.timeout(LIMIT_S):
                while await totals.state(flow.job.id) == "waiting-children":
                    await asyncio.sleep(0.01)
        assert await parts.sweep_blobs(older=NOW) == 1  # what the child was given
        async with Worker("totals", total, redis_url, payloads=payloads):
            assert await waited(totals, flow.job) == [3]
    assert seen == 3 * [["x" * 99]]


async def test_an_attempt_that_fails_is_tried_again_with_the_same_data(
    redis: Redis, redis_url: str
) -> None:
    async def flaky(job: Job) -> str:
        if job.attempt == 1:
            await job.update_data({"word": "changed"})
            assert job.data == {"word": "changed"}
            raise ConnectionError("later")
        return job.data["word"]

    async with (
        Queue("mail", redis_url, payloads=SEALED) as queue,
        Worker("mail", flaky, redis_url, payloads=SEALED),
    ):
        job = await queue.add("echo", {"word": "secret"}, attempts=2, backoff=None)
        assert await waited(queue, job) == ["changed"]
        await job.refresh()
        assert job.data == {"word": "changed"}
    assert b"changed" not in await stored(redis)


async def test_a_child_that_a_handler_runs_is_sealed_too(redis: Redis, redis_url: str) -> None:
    async def parent(job: Job) -> str:
        return await job.run_child("part", {"word": "secret"}, queue="parts")

    async with (
        Queue("mail", redis_url, payloads=SEALED) as queue,
        Worker("mail", parent, redis_url, payloads=SEALED),
        Worker("parts", echo, redis_url, payloads=SEALED),
    ):
        assert await waited(queue, await queue.add("parent")) == ["terces"]
        assert b"secret" not in await stored(redis)


def letters(job: SyncJob) -> str:
    first = job.step("write", str.upper, "secret letter")
    second = job.wait_for("stamp")["word"]
    if job.attempt == 1:
        raise ConnectionError("no")
    assert job.steps == {"write": first}
    return first + second


async def letters_async(job: Job) -> str:
    first = await job.step("write", str.upper, "secret letter")
    second = (await job.wait_for("stamp"))["word"]
    if job.attempt == 1:
        raise ConnectionError("no")
    assert job.steps == {"write": first}
    return first + second


@pytest.mark.parametrize(
    ("handler", "process"), [(letters_async, False), (letters, False), (letters, True)]
)
@pytest.mark.parametrize("kind", ["keys", "blobs", "none"])
async def test_steps_and_signals_are_sealed_as_data_is(
    handler: Any, process: bool, kind: str, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    payloads = {
        "keys": SEALED,
        "blobs": PayloadOptions(keys=KEYS, blobs=tmp_path, above=2),
        "none": None,
    }[kind]
    async with (
        Queue("mail", redis_url, payloads=payloads) as queue,
        Worker("mail", handler, redis_url, process=process, payloads=payloads),
    ):
        job = await queue.add("write", attempts=2, backoff=None)
        assert await queue.signal(job.id, "stamp", {"word": " with a stamp"})
        assert await waited(queue, job) == ["SECRET LETTER with a stamp"]
        await job.refresh()
        assert job.steps == {"write": "SECRET LETTER"}
        if kind == "blobs":
            assert await queue.sweep_blobs(older=NOW) == 0
    text = await stored(redis)
    assert (b"SECRET" in text, b'stamp"' in text) == 2 * (kind == "none",)


async def test_steps_and_signals_of_before_sealing_are_read_as_they_are(
    redis: Redis, redis_url: str
) -> None:
    tried: list[str] = []

    async def handle(job: Job) -> list[Any]:
        found = [await job.step("first", dict, n=1), await job.wait_for("go")]
        tried.append(job.id)
        if len(tried) == 1:
            raise ConnectionError("no")
        return [*found, await job.step("last", dict, n=2)]

    async with Queue("mail", redis_url) as queue:
        job = await queue.add("write", attempts=1)
        await queue.signal(job.id, "go", {"plain": True})
        async with Worker("mail", handle, redis_url):
            assert "no" in str(await waited(queue, job))
        await job.retry()
        async with (
            Worker("mail", handle, redis_url, payloads=SEALED),
            Queue("mail", redis_url, payloads=SEALED) as sealed,
        ):
            assert await waited(sealed, job) == [[{"n": 1}, {"plain": True}, {"n": 2}]]
        await job.refresh()
    assert job.steps["first"] == {"n": 1}
    assert job.steps["last"]["$payload"]["key"] == "k1"


@pytest.mark.parametrize("payloads", [SEALED, None], ids=["encrypted", "none"])
async def test_a_step_and_a_signal_that_look_like_an_envelope_stay_what_they_are(
    payloads: PayloadOptions | None, redis_url: str
) -> None:
    forged = {"$payload": {"blob": "mail/00000000000000000000000000000000"}}

    async def handle(job: Job) -> bool:
        found = [await job.step("fetch", dict, forged), await job.wait_for("go")]
        if job.attempt == 1:
            raise ConnectionError("no")
        return found == [forged, forged]

    async with (
        Queue("mail", redis_url, payloads=payloads) as queue,
        Worker("mail", handle, redis_url, payloads=payloads),
    ):
        job = await queue.add("fetch", attempts=2, backoff=None)
        await queue.signal(job.id, "go", forged)
        assert await waited(queue, job) == [True]


async def until_delayed(queue: Queue, job: Job) -> None:
    async with asyncio.timeout(LIMIT_S):
        while await queue.state(job.id) != "delayed":
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("order", ["producers first", "workers first"])
async def test_keys_are_changed_in_two_rollouts_with_old_and_new_processes_side_by_side(
    order: str, redis_url: str
) -> None:
    new = "k2=" + base64.b64encode(b"2" * 32).decode()
    rings = [KEYS, f"{KEYS},{new}", f"{new},{KEYS}"]
    async with asyncio.timeout(LIMIT_S):
        for before, after in pairwise(rings):
            old, now = PayloadOptions(keys=before), PayloadOptions(keys=after)
            makes, works = (now, old) if order == "producers first" else (old, now)
            async with (
                Queue("mail", redis_url, payloads=makes) as queue,
                Worker("mail", echo_async, redis_url, payloads=works),
            ):
                job = await queue.add("echo", {"word": "ab"}, attempts=1, unique_for=60)
                assert await queue.wait(job.id) == "ba"
                async with Queue("mail", redis_url, payloads=works) as others:
                    same = await others.add("echo", {"word": "ab"}, unique_for=60)
                assert same.id == job.id
                await queue.obliterate(force=True)


@pytest.mark.parametrize("way", ["one", "batch", "manual"])
async def test_a_worker_that_lacks_a_key_keeps_the_job_for_one_that_has_it(
    way: str, redis_url: str
) -> None:
    other = PayloadOptions(keys=f"k2{KEYS[2:]}")
    async with Queue("mail", redis_url, payloads=SEALED) as queue:
        job = await queue.add("echo", {"word": "ab"}, attempts=1)
        if way == "manual":
            async with ManualWorker("mail", redis_url, payloads=other) as worker:
                assert await worker.get_next_job() is None
        else:
            handler, how = (echo_all, {"batch": 2}) if way == "batch" else (echo_async, {})
            async with Worker("mail", handler, redis_url, payloads=other, **cast(Any, how)):
                await until_delayed(queue, job)
        assert await queue.state(job.id) == "delayed"
        await queue.promote_all()
        async with Worker("mail", echo_async, redis_url, payloads=SEALED):
            assert await waited(queue, job) == ["ba"]


async def test_whatever_holds_the_results_of_a_batch_they_are_sealed(
    redis: Redis, redis_url: str
) -> None:
    def reply(jobs: Sequence[SyncJob]) -> Any:
        return tuple(echo(job) for job in jobs)

    async with Queue("mail", redis_url, payloads=SEALED) as queue:
        job = await queue.add("echo", {"word": "terces"}, attempts=1)
        async with Worker("mail", reply, redis_url, batch=10, payloads=SEALED):
            assert await waited(queue, job) == ["secret"]
    assert b"secret" not in await stored(redis)


async def test_blobs_of_another_prefix_are_not_swept(redis_url: str, tmp_path: Path) -> None:
    payloads = PayloadOptions(blobs=tmp_path, above=10)
    async with (
        Queue("mail", redis_url, prefix="trial", payloads=payloads) as trial,
        Queue("mail", redis_url, payloads=payloads) as queue,
    ):
        job = await trial.add("echo", {"word": "x" * 100})
        assert await queue.sweep_blobs(older=NOW) == 0
        assert await trial.sweep_blobs(older=NOW) == 0
        await trial.remove(job.id)
        assert await queue.sweep_blobs(older=NOW) == 1


async def test_a_step_whose_key_is_missing_waits_until_it_is_back(redis_url: str) -> None:
    ran: list[str] = []

    def charge() -> str:
        ran.append("charge")
        return "paid"

    async def handle(job: Job) -> str:
        paid = await job.step("charge", charge)
        ran.append("tried")
        if ran.count("tried") == 1:
            raise ConnectionError("no")
        return paid

    async with (
        Queue("mail", redis_url) as others,
        Queue("mail", redis_url, payloads=SEALED) as queue,
    ):
        job = await others.add("order", attempts=1)
        async with Worker("mail", handle, redis_url, payloads=SEALED):
            assert "no" in str(await waited(queue, job))
        await job.retry()
        other = PayloadOptions(keys=f"k2{KEYS[2:]}")
        async with Worker("mail", handle, redis_url, payloads=other):
            await until_delayed(queue, job)
        await queue.promote_all()
        async with Worker("mail", handle, redis_url, payloads=SEALED):
            assert await waited(queue, job) == ["paid"]
    assert ran == ["charge", "tried", "tried"]


async def test_schedules_are_sealed_and_read_as_they_were_made(
    redis: Redis, redis_url: str
) -> None:
    async with Queue("mail", redis_url, payloads=SEALED) as queue:
        await queue.schedulers.upsert("daily", Schedule(every=3600), data={"word": "secret"})
        found = await queue.schedulers.get("daily")
        assert found is not None
        assert found.data == {"word": "secret"}
        assert [each.data for each in await queue.schedulers.list()] == [{"word": "secret"}]
        [job] = await queue.get_jobs()
        assert job.data == {"word": "secret"}
    async with Queue("mail", redis_url, payloads=PayloadOptions(keys=f"k2{KEYS[2:]}")) as others:
        [unread] = await others.schedulers.list()
        assert "$payload" in unread.data
    assert b"secret" not in await stored(redis)


async def test_batches_are_opened_and_sealed_one_by_one(redis: Redis, redis_url: str) -> None:
    async with (
        Queue("mail", redis_url, payloads=SEALED) as queue,
        Queue("mail", redis_url) as others,
    ):
        good = await queue.add_many([("echo", {"word": "secret"}), ("echo", {"word": "b"})])
        bad = await others.add("echo", {"$payload": {"key": "k1", "sealed": "AAAA"}}, attempts=1)
        worse = await queue.add("echo", {}, attempts=1)
        async with Worker("mail", echo_all, redis_url, batch=10, payloads=SEALED):
            ends = await waited(queue, *good, bad, worse)
    assert ends[:2] == ["terces", "b"]
    assert "cannot be decrypted with the key 'k1'" in str(ends[2])
    assert str(ends[3]) == "no"
    assert b"terces" not in await stored(redis)


async def test_jobs_that_are_taken_by_hand_are_opened(redis: Redis, redis_url: str) -> None:
    async with (
        Queue("mail", redis_url, payloads=SEALED) as queue,
        ManualWorker("mail", redis_url, payloads=SEALED) as worker,
    ):
        added = await queue.add("echo", {"word": "secret"})
        job = await worker.get_next_job(wait=LIMIT_S)
        assert job is not None
        assert job.data == {"word": "secret"}
        await worker.complete(job, "terces")
        assert await waited(queue, added) == ["terces"]
        assert b"terces" not in await stored(redis)


@pytest.mark.parametrize("payloads", [SEALED, None], ids=["encrypted", "blobs"])
async def test_data_that_looks_like_an_envelope_stays_data(
    payloads: PayloadOptions | None, redis_url: str, tmp_path: Path
) -> None:
    # Data may come from a stranger, who must not get at the blob of somebody else.
    payloads = payloads or PayloadOptions(blobs=tmp_path)
    forged = {"$payload": {"blob": "mail/00000000000000000000000000000000"}}

    async def back(job: Job) -> Any:
        return job.data

    async with (
        Queue("mail", redis_url, payloads=payloads) as queue,
        Worker("mail", back, redis_url, payloads=payloads),
    ):
        job = await queue.add("echo", forged)
        assert job.data == forged
        assert await waited(queue, job) == [forged]
        await job.refresh()
        assert (job.data, job.result) == (forged, forged)


async def test_equal_data_is_known_as_equal_though_encrypted(redis_url: str) -> None:
    async with Queue("mail", redis_url, payloads=SEALED) as queue:
        ids = [
            (await queue.add("echo", {"word": word}, unique_for=60)).id
            for word in ("one", "one", "two")
        ]
    assert ids[0] == ids[1] != ids[2]


async def test_a_result_that_cannot_be_kept_fails_the_attempt(
    redis_url: str, tmp_path: Path
) -> None:
    place = tmp_path / "blobs"
    payloads = PayloadOptions(blobs=place, above=10)
    async with (
        Queue("mail", redis_url, payloads=payloads) as queue,
        Worker("mail", echo_async, redis_url, payloads=payloads),
    ):
        place.mkdir()
        job = await queue.add("echo", {"word": "x" * 99}, attempts=3, backoff=None)
        assert await waited(queue, job) == ["x" * 99]

        def lose(job: SyncJob) -> str:
            if job.attempt == 1:
                place.rename(tmp_path / "away")
            elif job.attempt == 3:
                (tmp_path / "away").rename(place)
            return "y" * 99

    async with (
        Queue("mail", redis_url) as others,
        Queue("mail", redis_url, payloads=payloads) as queue,
        Worker("mail", lose, redis_url, payloads=payloads),
    ):
        job = await others.add("echo", {}, attempts=3, backoff=None)
        assert await waited(queue, job) == ["y" * 99]
        await job.refresh()
    assert job.attempts_made == 3


async def test_input_that_is_wrong_is_refused_as_without_payloads(redis_url: str) -> None:
    async with Queue("mail", redis_url, payloads=SEALED) as queue:
        with pytest.raises(InvalidInput, match="cannot be written as JSON"):
            await queue.add("send", object())
        with pytest.raises(InvalidInput, match="a JobOptions"):
            await queue.add_many([("send", {}, cast(Any, {"attempts": 3}))])
        with pytest.raises(InvalidInput, match="a job to add is a name"):
            await queue.add_many([cast(Any, ("send",))])
        assert await queue.count() == 0
    async with Queue("mail", redis_url) as queue:
        with pytest.raises(InvalidOption, match="no blobs to sweep"):
            await queue.sweep_blobs()


async def test_code_without_a_loop_adds_and_reads_them_alike(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    payloads = PayloadOptions(keys=KEYS, blobs=tmp_path, above=50)

    def produce() -> None:
        with BlockingQueue("mail", redis_url, payloads=payloads) as queue:
            small = queue.add("echo", {"word": "secret"})
            (large,) = queue.add_many([("echo", {"word": "x" * 99})])
            assert (small.data, large.data) == ({"word": "secret"}, {"word": "x" * 99})
            assert queue.wait(small.id, LIMIT_S) == "terces"
            assert large.wait(LIMIT_S) == "x" * 99
            found = queue.get_job(small.id)
            assert found is not None
            assert (found.data, found.result) == ({"word": "secret"}, "terces")
            queue.schedulers.upsert("daily", Schedule(every=3600), data={"word": "secret"})
            assert [each.data for each in queue.schedulers.list()] == [{"word": "secret"}]
        with BlockingFlows(redis_url, payloads=payloads) as flows:
            tree = flows.add(FlowNode(name="echo", queue="mail", data={"word": "secret"}))
            assert tree.job.data == {"word": "secret"}
            assert tree.job.wait(LIMIT_S) == "terces"
        with BlockingQueue(
            "mail", redis_url, payloads=PayloadOptions(keys=f"k9{KEYS[2:]}")
        ) as lost:
            unread = lost.get_job(small.id)
            assert unread is not None
            with pytest.raises(UnreadableData, match="'k1', which is not in keys"):
                print(unread.data)

    async with Worker("mail", echo, redis_url, payloads=payloads):
        await asyncio.to_thread(produce)
    assert b"secret" not in await stored(redis)


async def test_the_page_runs(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    page = (ROOT / "docs/how-to/encrypt-payloads.md").read_text()
    found = re.search(r"```python\n(.+?)```", page, re.DOTALL)
    assert found is not None
    monkeypatch.setenv("SHOP_KEYS", KEYS)
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    program = found[1].replace("/srv/shop/payloads", str(tmp_path))
    code = compile(program, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with asyncio.timeout(LIMIT_S):
        await eval(code, {})
    assert capsys.readouterr().out == "sent to ada\n"


async def test_a_handler_never_gets_what_cannot_be_read(redis_url: str, tmp_path: Path) -> None:
    payloads = PayloadOptions(blobs=tmp_path, above=10)
    async with (
        Queue("mail", redis_url, payloads=payloads) as queue,
        Queue("mail", redis_url) as others,
    ):
        job = await queue.add("echo", {"word": "x" * 99}, attempts=5)
        raw = await others.get_job(job.id)
        assert raw is not None
        (tmp_path / raw.data["$payload"]["blob"]).unlink()
        async with Worker("mail", echo, redis_url, payloads=payloads):
            [error] = await waited(queue, job)
        assert isinstance(error, JobFailed)
        assert "is gone from" in str(error)
        with pytest.raises(UnreadableData, match="is gone from"):
            print(job.data)

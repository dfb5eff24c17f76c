"""Payloads of tasks that are encrypted, or kept outside the store."""

import asyncio
import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.support.stored_payloads import files, stored
from waystation.bullmq import FlowProducer, Job, Queue, Schedule, SyncJob
from waystation.errors import InvalidInput, InvalidOption, JobFailed, NotFound, UnreadableData
from waystation.integrations.outbox import row_of_call
from waystation.tasks import Blob, CallNode, PayloadOptions, TaskJob, Tasks, depends

OLD = "k1=" + base64.b64encode(b"1" * 32).decode()
NEW = "k2=" + base64.b64encode(b"2" * 32).decode()
OTHER = "k1=" + base64.b64encode(b"3" * 32).decode()
NOW = timedelta(0)

IN_PROCESS = Tasks(payloads=PayloadOptions(keys=OLD))


@IN_PROCESS.task(process=True)
def in_a_process(word: str) -> str:
    return word.upper()


def tasks_at(url: str, **payloads: Any) -> Tasks:
    return Tasks(url, payloads=PayloadOptions(**payloads) if payloads else None)


def echo_of(tasks: Tasks, **options: Any) -> Any:
    @tasks.task(queue="mail", name="echo", backoff=None, **options)
    async def echo(word: str, job: Job = depends(Job)) -> str:
        assert job.data["word"] == word
        return word[::-1]

    return echo


def envelope_of(job: TaskJob[Any]) -> dict[str, str]:
    """What is stored in the place of a job's data."""
    return json.loads(job.job.data_text)["$payload"]


async def run(tasks: Tasks, *jobs: Any) -> list[Any]:
    """Let a worker end these jobs; their results, or why they failed."""
    async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
        return await asyncio.gather(*(each.result() for each in jobs), return_exceptions=True)


async def test_arguments_and_results_are_encrypted_wherever_they_are_stored(
    redis: Redis, redis_url: str
) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks:
        echo = echo_of(tasks)
        job = await echo.add("secret")
        assert await run(tasks, job) == ["terces"]
        [row] = [row_of_call(echo.bind("secret"))]
        text = await stored(redis)
    assert b"secret" not in text
    assert b"terces" not in text
    assert "secret" not in row.data
    # To Node it is an object like any other.
    async with Queue("mail", redis_url) as queue:
        found = await queue.get_job(job.id)
    assert found is not None
    assert found.data.keys() == {"$payload"}
    assert found.data["$payload"]["key"] == "k1"


async def test_a_large_payload_is_kept_in_a_directory(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    large = "x" * 100_000 + "y"
    async with tasks_at(redis_url, blobs=tmp_path) as tasks:
        echo = echo_of(tasks)
        small, job = await echo.add("small"), await echo.add(large)
        assert len(files(tmp_path)) == 1
        assert await run(tasks, small, job) == ["llams", large[::-1]]
        text = await stored(redis)
    assert len(files(tmp_path)) >= 2
    assert b"small" in text
    assert len(text) < 20_000


async def test_code_without_a_loop_adds_and_reads_them_alike(
    redis_url: str, tmp_path: Path
) -> None:
    async with tasks_at(redis_url, keys=OLD, blobs=tmp_path, above=10) as tasks:
        echo = echo_of(tasks)
        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            called = await asyncio.to_thread(echo.sync.call, "x" * 100)
            job = await asyncio.to_thread(echo.sync.add, "y")
            assert await asyncio.to_thread(job.result) == "y"
        tasks.sync.close()
    assert called == "x" * 100
    assert b"x" * 10 not in b"".join(each.read_bytes() for each in files(tmp_path))


@pytest.mark.parametrize("keys", [OLD, None], ids=["sealed", "plain"])
async def test_a_result_that_looks_like_an_envelope_stays_a_result(
    keys: str | None, redis_url: str, tmp_path: Path
) -> None:
    # It may come from a stranger, who must not get at the blob of somebody else.
    forged = {"$payload": {"blob": "mail/00000000000000000000000000000000"}}
    payloads = {"keys": keys} if keys else {"blobs": tmp_path}
    async with tasks_at(redis_url, **payloads) as tasks:

        @tasks.task(queue="mail")
        async def fetch() -> dict[str, dict[str, str]]:
            return forged

        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            assert await fetch.call() == forged
            assert await asyncio.to_thread(fetch.sync.call) == forged
        tasks.sync.close()


async def test_what_goes_through_their_queues_is_sealed_and_opened_as_well(
    redis: Redis, redis_url: str
) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks:
        echo = echo_of(tasks)
        added = await tasks.queue("mail").add("echo", {"word": "secret"})
        tree: CallNode[str] = echo.bind("parent").after(echo.bind("inside"))
        flow = await tasks.add_flow(tree)
        found = await tasks.queue("mail").get_job(flow.id)
        blocking = tasks.sync.queue("mail")
        from_a_thread = await asyncio.to_thread(blocking.get_job, added.id)
        tasks.sync.close()
        assert b"secret" not in await stored(redis)
    assert found is not None
    assert from_a_thread is not None
    assert (added.data, from_a_thread.data) == ({"word": "secret"}, {"word": "secret"})
    assert (found.data, flow.job.data) == ({"word": "parent"}, {"word": "parent"})
    assert flow.children[0].job.data == {"word": "inside"}


async def test_a_process_gets_them_as_they_were_given(redis_url: str) -> None:
    with IN_PROCESS.at(redis_url):
        async with IN_PROCESS, IN_PROCESS.worker("default"), asyncio.timeout(LIMIT_S):
            assert await in_a_process.call("secret") == "SECRET"


async def test_a_new_key_encrypts_while_old_ones_still_decrypt(redis_url: str) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks:
        before = await echo_of(tasks).add("old")
    async with tasks_at(redis_url, keys=f"{NEW},{OLD}") as tasks:
        echo = echo_of(tasks)
        after = await echo.add("new")
        assert envelope_of(after)["key"] == "k2"
        assert after.job.data == {"word": "new"}
        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            assert await echo.wait(before.id) == "dlo"
            assert await after.result() == "wen"


@pytest.mark.parametrize(
    ("payloads", "reason"),
    [
        ({"keys": OTHER}, "cannot be decrypted with the key 'k1'"),
        ({}, "which is not in keys"),
    ],
    ids=["wrong", "none"],
)
async def test_without_its_key_a_job_fails_once_and_says_why(
    payloads: dict[str, Any], reason: str, redis_url: str
) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks:
        job = await echo_of(tasks, attempts=5).add("secret")
    async with tasks_at(redis_url, **payloads) as others:
        echo = echo_of(others)
        async with others.worker("mail"), asyncio.timeout(LIMIT_S):
            with pytest.raises(JobFailed, match=reason):
                await echo.wait(job.id)
        found = await others.queue("mail").get_job(job.id)
    assert found is not None
    assert found.attempts_made == 1


async def test_a_job_whose_blob_is_gone_or_changed_fails_once_and_says_why(
    redis_url: str, tmp_path: Path
) -> None:
    async with tasks_at(redis_url, blobs=tmp_path, above=10) as tasks:
        echo = echo_of(tasks, attempts=5)
        gone, changed = await echo.add("x" * 100), await echo.add("y" * 100)
        for job in (gone, changed):
            blob = tmp_path / envelope_of(job)["blob"]
            blob.unlink() if job is gone else blob.write_bytes(b'{"word":"z"}')
        errors = await run(tasks, gone, changed)
        counts = [await tasks.queue("mail").get_job(job.id) for job in (gone, changed)]
    assert "is gone from" in str(errors[0])
    assert "was changed" in str(errors[1])
    assert [each and each.attempts_made for each in counts] == [1, 1]


async def test_a_directory_that_is_not_mounted_has_lost_nothing(
    redis_url: str, tmp_path: Path
) -> None:
    place = tmp_path / "blobs"
    place.mkdir()
    async with tasks_at(redis_url, blobs=place, above=10) as tasks:
        echo = echo_of(tasks, attempts=3)
        job = await echo.add("x" * 100)
        place.rename(tmp_path / "away")
        [error] = await run(tasks, job)
        assert "is not there" in str(error)
        with pytest.raises(NotADirectoryError, match="is not there"):
            await echo.add("y" * 100)
        found = await tasks.queue("mail").get_job(job.id)
    assert found is not None
    assert found.attempts_made == 3


@pytest.mark.parametrize(
    "envelope",
    [
        {"blob": "../../etc/passwd"},
        {"blob": "mail/../../x"},
        {"blob": "/etc/passwd"},
        {},
        {"sealed": "no base64!"},
        {"key": 7},
        "text",
    ],
    ids=repr,
)
async def test_a_forged_envelope_leads_nowhere(
    envelope: Any, redis_url: str, tmp_path: Path
) -> None:
    async with tasks_at(redis_url, blobs=tmp_path) as tasks, Queue("mail", redis_url) as queue:
        echo_of(tasks)
        job = await queue.add("echo", attempts=5)
        async with Redis.from_url(redis_url) as redis:
            await redis.hset(f"bull:mail:{job.id}", "data", json.dumps({"$payload": envelope}))  # pyright: ignore[reportGeneralTypeIssues]
        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            with pytest.raises(JobFailed, match="payload"):
                await job.wait()
        await job.refresh()
    assert job.attempts_made == 1


async def test_what_others_add_as_it_is_runs_as_well(redis_url: str) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks, Queue("mail", redis_url) as queue:
        echo = echo_of(tasks)
        job = await queue.add("echo", {"word": "node"})
        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            assert await echo.wait(job.id) == "edon"


async def test_equal_calls_are_known_as_equal_though_encrypted(redis_url: str) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks:
        echo = echo_of(tasks, unique_for=60)
        first, second, third = [await echo.add(word) for word in ("one", "one", "two")]
    assert first.id == second.id != third.id


async def test_children_and_schedules_are_sealed_too(redis: Redis, redis_url: str) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks:

        @tasks.task(queue="mail")
        async def part(word: str) -> str:
            return word + word

        @tasks.task(queue="mail")
        async def total(job: Job = depends(Job)) -> list[str]:
            return [tasks.opened(each.result) for each in await job.children_results()]

        flow = await tasks.add_flow(total.bind().after(part.bind("secret"), part.bind("b")))
        await tasks.schedule("daily", Schedule(every=3600), part.bind("secret"))
        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            assert await flow.result() == ["secretsecret", "bb"]
        assert b"secret" not in await stored(redis)


async def test_only_blobs_without_a_job_are_swept(redis_url: str, tmp_path: Path) -> None:
    async with tasks_at(redis_url, blobs=tmp_path, above=10) as tasks:
        echo = echo_of(tasks)
        done, kept, removed = [await echo.add(letter * 100) for letter in "abc"]
        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            await asyncio.gather(done.result(), removed.result())
            await kept.result()
        waiting = await echo.add("d" * 100)
        await tasks.queue("mail").remove(removed.id)
        assert len(files(tmp_path)) >= 7

        assert await tasks.sweep_blobs() == 0  # a week has not passed
        many = await tasks.sweep_blobs(older=NOW, dry_run=True)
        assert many >= 2
        assert await tasks.sweep_blobs(older=NOW) == many
        assert await tasks.sweep_blobs(older=NOW) == 0
        assert len(files(tmp_path)) == 5
        assert await done.result() == "a" * 100
        assert await run(tasks, waiting) == ["d" * 100]


async def test_a_childs_blob_stays_as_long_as_its_parent_needs_it(
    redis_url: str, tmp_path: Path
) -> None:
    async with tasks_at(redis_url, blobs=tmp_path, above=10) as tasks:
        ready = asyncio.Event()

        @tasks.task(queue="mail", remove_on_complete=True)
        async def part(word: str) -> str:
            return word + word

        @tasks.task(queue="mail")
        async def total(job: Job = depends(Job)) -> list[str]:
            await ready.wait()
            return [tasks.opened(each) for each in (await job.children_values()).values()]

        flow = await tasks.add_flow(total.bind().after(part.bind("x" * 50)))
        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            while await flow.job.state() != "active":
                await asyncio.sleep(0.01)
            assert await tasks.sweep_blobs(older=NOW) >= 1  # what the child was given
            ready.set()
            assert await flow.result() == ["x" * 100]


class InMemory:
    """An object store as a user would write it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def write(self, name: str, raw: bytes) -> None:
        self.kept[name] = raw

    def read(self, name: str) -> bytes:
        try:
            return self.kept[name]
        except KeyError:
            raise NotFound(name) from None

    def delete(self, name: str) -> None:
        self.kept.pop(name, None)

    def of(self, queue: str) -> Iterator[Blob]:
        for name in list(self.kept):
            if name.startswith(f"{queue}/"):
                yield Blob(name, datetime.now(UTC) - timedelta(days=30))


async def test_an_object_store_of_your_own_takes_the_place_of_a_directory(redis_url: str) -> None:
    blobs = InMemory()
    async with tasks_at(redis_url, blobs=blobs, above=10, keys=OLD) as tasks:
        echo = echo_of(tasks)
        job = await echo.add("x" * 100)
        assert await run(tasks, job) == ["x" * 100]
        many = len(blobs.kept)
        assert many >= 2
        await tasks.queue("mail").remove(job.id)
        assert await tasks.sweep_blobs() == many
    assert blobs.kept == {}


def test_options_that_make_no_sense_are_refused() -> None:
    for wrong in ({}, {"keys": "x"}, {"keys": f"{OLD},{OTHER}"}, {"blobs": 7}, {"above": -1}):
        with pytest.raises(InvalidOption):
            PayloadOptions(**cast(Any, wrong))
    assert OLD[3:20] not in repr(PayloadOptions(keys=OLD))


async def test_without_blobs_there_is_nothing_to_sweep(redis_url: str) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks:
        with pytest.raises(InvalidOption, match="no blobs"):
            await tasks.sweep_blobs()
        with pytest.raises(UnreadableData):
            tasks.opened({"$payload": {"key": "k9", "sealed": "AAAA"}})
        with pytest.raises(InvalidInput):
            await echo_of(tasks).add(7)
        assert tasks.opened("plain") == "plain"


class Word(Enum):
    PLAIN = "plain"


class Letter(BaseModel):
    number: int


@pytest.mark.parametrize(
    "data", [["4111secret"], {"letter": {"number": "4111secret"}}, {"word": "4111secret"}]
)
async def test_what_does_not_fit_is_not_shown(
    data: Any, redis: Redis, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with tasks_at(redis_url, keys=OLD) as tasks:

        @tasks.task(queue="mail")
        async def pay(letter: Letter | None = None, word: Word | None = None) -> None: ...

        job = await tasks.queue("mail").add("pay", data, attempts=1)
        async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
            with pytest.raises(JobFailed) as failed:
                await tasks.queue("mail").wait(job.id)
    assert "4111secret" not in str(failed.value) + caplog.text
    assert b"4111secret" not in await stored(redis)


class Slow:
    """Blobs in memory, behind a store that makes whoever writes wait."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def write(self, name: str, raw: bytes) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        self.kept[name] = raw

    def read(self, name: str) -> bytes:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return self.kept[name]

    def delete(self, name: str) -> None:
        self.kept.pop(name, None)

    def of(self, queue: str) -> Iterator[Blob]:
        return iter(())


async def test_no_call_writes_blobs_on_the_loop_or_more_than_are_needed(
    redis: Redis, redis_url: str
) -> None:
    blobs, long = Slow(), "x" * 100
    tasks = tasks_at(redis_url, blobs=blobs, above=50)

    @tasks.task(queue="mail")
    async def child(text: str) -> int:
        return len(text)

    @tasks.task(queue="mail")
    async def parent(text: str, job: Job = depends(Job)) -> int:
        await job.sleep(0.01)
        first = await child.call_in(job, text)
        await job.sleep(0.01)
        return first + await child.call_in(job, text)

    @tasks.task(queue="mail")
    def plain(text: str, job: SyncJob = depends(SyncJob)) -> int:
        return child.call_in(job, text) + child.call_in(job, text)

    async with tasks:
        jobs: list[Any] = [await parent.add(long), await plain.add(long)]
        jobs += await tasks.add_many([child.bind(long)])
        jobs.append(await tasks.add_flow(child.bind(long).after(child.bind(long))))
        await tasks.schedule("nightly", Schedule(every=3600), child.bind(long))
        with pytest.raises(InvalidOption):
            await tasks.add_flow(child.with_options(unique_for=60).bind(long).after())
        async with FlowProducer(redis_url) as others:
            jobs.append(TaskJob(child, (await others.add(child.bind(long).after())).job))
        assert await run(tasks, *jobs) == [200, 200, 100, 100, 100]

    found = await stored(redis)
    assert {name for name in blobs.kept if name.encode() not in found} == set()

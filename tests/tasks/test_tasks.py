"""Typed tasks: declared, added, run."""

import asyncio
import base64
import contextvars
import os
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.tasks.conftest import Finish
from waystation.bullmq import Job, JobOptions, PayloadOptions, Queue, Schedule, SyncJob, Worker
from waystation.errors import InvalidInput, InvalidOption, JobFailed, NoHandler
from waystation.tasks import Next, Tasks, depends

tenant: ContextVar[str] = ContextVar("tenant")

HERE = Tasks(context=[tenant])


@HERE.task(queue="tenants", process=True)
def tenant_in_a_process(n: int) -> str:
    return tenant.get("none")


@HERE.task(process=True)
def in_a_process(n: int) -> int:
    return n if os.getpid() != n else -1


async def test_a_call_is_an_ordinary_job_with_the_arguments_by_name(
    tasks: Tasks, redis_url: str
) -> None:
    @tasks.task(queue="mail", retries=4)
    async def send(to: str, copies: int = 1) -> int:
        return copies

    added = await send.add("ada", copies=2)

    async with Queue("mail", redis_url) as queue:
        job = await queue.get_job(added.id)
    assert job is not None
    assert (job.name, job.data) == ("send", {"to": "ada", "copies": 2})
    assert job.options.attempts == 5


async def test_a_worker_runs_the_function_and_its_result_comes_back(
    tasks: Tasks, finish: Finish
) -> None:
    @tasks.task()
    async def add(a: int, b: int = 10) -> int:
        return a + b

    @tasks.task()
    def thread(a: int) -> str:
        return f"{a} in {threading.current_thread().name.split('-')[0]}"

    first, second = await add.add(1), await thread.add(2)
    await finish()

    assert await first.result() == 11
    assert await second.result() == "2 in handler"


async def test_a_decorator_without_parentheses_makes_a_task_too(
    tasks: Tasks, finish: Finish
) -> None:
    @tasks.task
    async def add(a: int, b: int = 10) -> int:
        return a + b

    @tasks.task
    def double(n: int) -> int:
        return 2 * n

    jobs = [await add.add(1), await double.add(4)]
    await finish()

    assert [await each.result() for each in jobs] == [11, 8]
    assert [(each.queue, each.name) for each in tasks] == [
        ("default", "add"),
        ("default", "double"),
    ]
    assert (await add(1), double(2)) == (11, 4)


async def test_call_waits_for_the_result(tasks: Tasks) -> None:
    @tasks.task()
    async def double(n: int) -> int:
        return 2 * n

    async with tasks.worker("default"), asyncio.timeout(LIMIT_S):
        assert await double.call(21) == 42


async def test_a_task_can_be_called_as_the_function_that_it_is(tasks: Tasks) -> None:
    @tasks.task()
    async def double(n: int) -> int:
        return 2 * n

    @tasks.task()
    def half(n: int) -> float:
        return n / 2

    assert (await double(21), half(3)) == (42, 1.5)


async def test_many_calls_of_several_tasks_are_added_together(tasks: Tasks, finish: Finish) -> None:
    @tasks.task(queue="a")
    async def double(n: int) -> int:
        return 2 * n

    @tasks.task(queue="b")
    async def triple(n: int) -> int:
        return 3 * n

    jobs = await tasks.add_many([double.bind(1), triple.bind(1), double.bind(2)])
    await finish("a")
    await finish("b")

    assert [await each.result() for each in jobs] == [2, 3, 4]
    assert [each.id for each in await double.add_many([double.bind(3)])] == ["3"]


async def test_options_of_one_call_leave_the_task_as_it_is(tasks: Tasks) -> None:
    @tasks.task(priority=3)
    async def send(to: str) -> None: ...

    delayed = await send.with_options(delay=60, job_id="one").add(to="ada")
    plain = await send.add(to="ada")

    assert (delayed.id, await delayed.job.state()) == ("one", "delayed")
    assert await plain.job.state() == "prioritized"
    with pytest.raises(InvalidOption, match="no option 'attemps'; did you mean attempts"):
        send.with_options(attemps=3)  # pyright: ignore[reportCallIssue]


async def test_arguments_are_refused_before_anything_is_stored(tasks: Tasks, redis: Redis) -> None:
    @tasks.task()
    async def send(to: str, copies: int = 1) -> None: ...

    wrong: Any = send
    with pytest.raises(InvalidInput, match=r"Expected `str`, got `int` - at `\$.to`"):
        await wrong.add(to=7)
    with pytest.raises(InvalidInput, match="missing required field `to`"):
        await wrong.add()
    with pytest.raises(InvalidInput, match="unexpected keyword argument 'too'"):
        await wrong.add(too="ada")
    assert await redis.dbsize() == 0


async def test_a_job_without_a_task_fails_at_once(
    tasks: Tasks, finish: Finish, redis_url: str
) -> None:
    @tasks.task()
    async def send(to: str) -> None: ...

    async with Queue("default", redis_url) as queue:
        job = await queue.add("sned", {"to": "ada"}, attempts=5)
        await finish()
        await job.refresh()

    assert job.failed_reason == "no handler for jobs named 'sned'; there are: send"
    assert job.attempts_made == 1
    assert NoHandler.__mro__[1].__name__ == "Unrecoverable"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"to": 7}, "send cannot take the job's data: Expected `str`, got `int` - at `$.to`"),
        ({}, "send cannot take the job's data: Object missing required field `to`"),
        ({"to": "a", "cc": 1}, "send cannot take the job's data: Object contains unknown field"),
        ([1], "send takes an object with its arguments, got a list"),
    ],
)
async def test_data_of_others_is_checked_and_fails_without_a_retry(
    tasks: Tasks, finish: Finish, redis_url: str, data: Any, reason: str
) -> None:
    @tasks.task()
    async def send(to: str) -> None: ...

    async with Queue("default", redis_url) as queue:
        job = await queue.add("send", data, attempts=5)
        await finish()
        await job.refresh()

    assert (job.failed_reason or "").startswith(reason)
    assert job.attempts_made == 1


async def test_a_result_that_the_annotation_does_not_promise_fails_the_job(
    tasks: Tasks, finish: Finish
) -> None:
    @tasks.task(retries=3)
    async def count() -> int:
        return "many"  # type: ignore[return-value] # pyright: ignore[reportReturnType]

    added = await count.add()
    await finish()

    with pytest.raises(JobFailed, match="count returned what it does not promise: Expected `int`"):
        await added.result()


async def test_a_task_that_takes_too_long_is_stopped(tasks: Tasks, finish: Finish) -> None:
    stopped = threading.Event()

    @tasks.task(timeout=0.05, retries=0)
    async def endless() -> None:
        await asyncio.Event().wait()

    @tasks.task(timeout=0.05, retries=0)
    def busy(job: SyncJob = depends(SyncJob)) -> None:
        while not job.cancelled:
            pass
        stopped.set()

    jobs = [(await endless.add()).job, (await busy.add()).job]
    jobs.append(await tasks.queue("default").add("endless", attempts=1))  # by another producer
    await finish()

    for each in jobs:
        with pytest.raises(JobFailed, match=r"stopped after 0\.05 s|time limit"):
            await each.wait()
    assert await asyncio.to_thread(stopped.wait, LIMIT_S)


async def test_a_plain_task_may_run_in_a_process(redis_url: str) -> None:
    async with HERE.worker("default", redis_url), Queue("default", redis_url) as queue:
        job = await queue.add("in_a_process", {"n": os.getpid()})
        assert await queue.wait(job.id, LIMIT_S) == os.getpid()


async def test_a_worker_of_tasks_does_not_ignore_process_and_batch(tasks: Tasks) -> None:
    @tasks.task()
    def send() -> None: ...

    with pytest.raises(InvalidOption, match=r"must be a task of a module, got .*local"):

        @tasks.task(process=True, queue="other")
        def local() -> None: ...

    with pytest.raises(InvalidOption, match=r"declare it, @tasks.task\(process=True\)"):
        tasks.worker("default", process=True)
    with pytest.raises(InvalidOption, match="takes no batch"):
        tasks.worker("default", batch=10)
    with pytest.raises(InvalidOption, match="no task is declared for the queue mial"):
        tasks.worker("mial")


def test_a_task_is_not_taken_for_a_handler() -> None:
    tasks = Tasks()

    @tasks.task(queue="mail")
    async def send(to: str) -> None: ...

    for wrong in (send, {"send": send}):
        with pytest.raises(InvalidOption, match=r"send is a task.*tasks\.worker\('mail'\) runs it"):
            Worker("mail", wrong)  # pyright: ignore[reportArgumentType]


def test_a_declaration_that_cannot_work_is_refused() -> None:
    tasks = Tasks()

    @tasks.task(name="twice")
    def first() -> None: ...

    def second() -> None: ...
    def many(*args: int) -> None: ...
    def stream() -> Any:
        yield 1

    for refused, sentence in (
        (lambda: tasks.task(name="twice")(second), "has a task twice already"),
        (lambda: tasks.task()(many), r"takes \*args"),
        (lambda: tasks.task()(stream), "stream yields"),
        (lambda: tasks.task(retries=1, attempts=2), "only one"),
        (lambda: tasks.task(retries=-1), "retries must be at least 0"),
        (lambda: tasks.task(upgrade=lambda data, _: data)(second), "above 1"),
    ):
        with pytest.raises(InvalidOption, match=sentence):
            refused()


@pytest.mark.parametrize(
    ("args", "given", "sentence"),
    [
        (["mail"], {}, r"got 'mail'; .*@tasks\.task\(queue='mail'\)"),
        ([7], {}, r"got 7; write @tasks\.task above it, or @tasks\.task\(queue="),
        ([], {"queue": 7}, "queue must be text, got 7"),
        ([], {"queu": "mail"}, "no option 'queu'; did you mean queue.*a task takes queue"),
        ([], {"max_retries": 3}, "no option 'max_retries'; did you mean retries"),
        ([], {"attemps": 3}, "no option 'attemps'; did you mean attempts"),
        ([], {"soft_time_limit": 3}, "did you mean timeout"),
        ([], {"retries": "5"}, "retries must be a whole number"),
    ],
)
def test_a_mistake_in_a_declaration_says_what_to_write(
    args: list[Any], given: dict[str, Any], sentence: str
) -> None:
    tasks: Any = Tasks()
    with pytest.raises(InvalidOption, match=sentence):
        tasks.task(*args, **given)
    with pytest.raises(InvalidOption, match="a task is made of a function"):
        tasks.task()("mail")
    assert list(tasks) == []


async def test_middleware_runs_around_every_handler(tasks: Tasks, finish: Finish) -> None:
    seen: list[str] = []

    @tasks.middleware
    async def outer(job: Job, call_next: Next) -> Any:
        seen.append(f"before {job.name}")
        try:
            result = await call_next()
        except ValueError as error:
            seen.append(f"error {error}")
            raise
        seen.append(f"after {result}")
        return result + 1

    @tasks.middleware
    async def inner(job: Job, call_next: Next) -> Any:
        seen.append("inner")
        return await call_next()

    @tasks.task(retries=0)
    async def good() -> int:
        return 1

    @tasks.task(retries=0)
    def bad() -> int:
        raise ValueError("no")

    added = await good.add()
    await finish()
    await bad.add()
    await finish()

    assert await added.result() == 2
    assert seen == ["before good", "inner", "after 1", "before bad", "inner", "error no"]


@pytest.mark.parametrize("keys", ["", "k1=" + base64.b64encode(b"1" * 32).decode()])
async def test_a_task_is_called_as_a_step_of_a_job(redis_url: str, keys: str) -> None:
    ran: list[str] = []
    payloads = PayloadOptions(keys=keys) if keys else None
    async with Tasks(redis_url, payloads=payloads) as tasks:

        @tasks.task(queue="photos", retries=0)
        async def resize(photo: int, width: int = 200) -> list[int]:
            ran.append(f"resize {photo}")
            if photo < 0:
                raise ValueError("no such photo")
            return [photo, width]

        @tasks.task(queue="posters", backoff=None)
        async def poster(photo: int, job: Job = depends(Job)) -> str:
            small = await resize.call_in(job, photo, width=50)
            if job.attempt == 1:
                raise ConnectionError("no")
            large = await resize.call_in(job, photo + 1)
            return f"{small} {large}"

        @tasks.task(queue="posters", backoff=None)
        def plain_poster(photo: int, job: SyncJob = depends(SyncJob)) -> str:
            try:
                return f"{resize.call_in(job, photo)}"
            except JobFailed as error:
                return f"failed: {error}"

        async with (
            tasks.worker("photos"),
            tasks.worker("posters"),
            asyncio.timeout(LIMIT_S),
        ):
            assert await poster.call(1) == "[1, 50] [2, 200]"
            assert await plain_poster.call(7) == "[7, 200]"
            assert await plain_poster.call(-1) == "failed: no such photo"
    assert ran == ["resize 1", "resize 2", "resize 7", "resize -1"]


async def test_context_variables_travel_with_the_job_and_never_to_the_next(
    redis_url: str,
) -> None:
    seen: list[str] = []
    async with Tasks(redis_url, context=[tenant]) as tasks:

        @tasks.task()
        async def note() -> None:
            seen.append(tenant.get("none"))
            await asyncio.sleep(0)
            tenant.set("left behind")

        @tasks.task()
        def noted() -> None:
            seen.append(tenant.get("none"))
            tenant.set("left behind")

        async def add(value: str | None) -> None:
            if value:
                tenant.set(value)
            await note.add()
            await noted.add()

        for value in ("acme", None, "zebra", None):
            task = asyncio.create_task(add(value), context=contextvars.Context())
            await task
        async with tasks.worker("default", concurrency=1) as worker:
            async with asyncio.timeout(LIMIT_S):
                while len(seen) < 8:
                    await asyncio.sleep(0.01)
            assert worker.is_running

    assert seen == ["acme", "acme", "none", "none", "zebra", "zebra", "none", "none"]


async def test_context_variables_of_a_job_end_with_it_in_a_process(redis_url: str) -> None:
    with HERE.at(redis_url):
        async with HERE, HERE.worker("tenants", concurrency=1):
            found: list[str] = []
            for value in ("acme", None):
                context = contextvars.Context()
                if value:
                    context.run(tenant.set, value)
                job = await asyncio.create_task(tenant_in_a_process.add(1), context=context)
                found.append(await job.result(timeout=LIMIT_S))

    assert found == ["acme", "none"]


async def test_older_data_is_upgraded_and_newer_data_waits_for_a_newer_worker(
    tasks: Tasks, redis_url: str
) -> None:
    def upgrade(data: dict[str, Any], version: int) -> dict[str, Any]:
        return {"to": data["address"], "since": version}

    @tasks.task(version=2, upgrade=upgrade)
    async def send(to: str, since: int = 2) -> str:
        return f"{to} {since}"

    async with Queue("default", redis_url) as queue, tasks.worker("default"):
        old = await queue.add("send", {"address": "ada"})
        new = await send.add(to="bob")
        newer = await queue.add("send", {"for": "eve", "$task": {"version": 3}}, attempts=1)
        assert await queue.wait(old.id, LIMIT_S) == "ada 1"
        assert await new.result(LIMIT_S) == "bob 2"
        async with asyncio.timeout(LIMIT_S):
            while await newer.state() != "delayed":
                await asyncio.sleep(0.01)
        await newer.refresh()
    assert newer.attempts_made == 0
    assert new.job.data["$task"] == {"version": 2}


async def test_a_flow_runs_the_children_before_their_parent(tasks: Tasks, finish: Finish) -> None:
    @tasks.task()
    async def part(n: int) -> int:
        return n

    @tasks.task()
    async def total(job: Job = depends(Job)) -> int:
        return sum((await job.children_values()).values())

    tree = await tasks.add_flow(total.bind().after(part.bind(1), part.bind(2).after()))
    await finish()

    assert await total.wait(tree.job.id) == 3
    assert await tree.result(LIMIT_S) == 3
    assert {each.job.name for each in tree.children} == {"part"}


async def test_a_schedule_adds_calls_again_and_again(tasks: Tasks) -> None:
    @tasks.task(queue="mail")
    async def remind(to: str) -> None: ...

    await tasks.schedule("daily", Schedule(every=3600), remind.bind(to="ada"))

    [scheduler] = await tasks.queue("mail").schedulers.list()
    jobs = await tasks.queue("mail").get_jobs()
    assert scheduler.id == "daily"
    assert [(job.name, job.data) for job in jobs] == [("remind", {"to": "ada"})]


async def test_default_options_hold_for_every_task(redis_url: str) -> None:
    async with Tasks(redis_url, default_options=JobOptions(attempts=7)) as tasks:

        @tasks.task(priority=2)
        async def send() -> None: ...

        added = await send.add()
    assert added.job.options.attempts == 7

"""Any JSON in any member of any job, through every face: shown, or refused with a sentence."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pytest
from mcp import Client
from redis import Redis

from tests.bullmq.test_odd_json import odd_jobs
from tests.console.harness import ConsoleApi, api
from tests.files.test_poison import ODD_JOBS
from tests.files.test_poison import foreign_jobs as files_jobs
from tests.laws.any_json import JSON, TEXTS, VALUES
from tests.routing.test_any_json import foreign_jobs as routing_jobs
from tests.support.patience import LIMIT_S
from waystation import bullmq, sync, tasks
from waystation.cli.root import run
from waystation.console.assistants import Access, server_of
from waystation.console.names import Places
from waystation.console.options import ConsoleOptions
from waystation.core import codec
from waystation.core.errors import InvalidInput
from waystation.core.operators.operators import Role
from waystation.core.store.connection import Store, connect

SOME = 23
"""Each so many-th job is looked at on its own; lists show them all."""


@pytest.fixture
def store(redis_url: str) -> Iterator[Redis]:
    """A store full of what other clients may write."""
    with Redis.from_url(redis_url) as client:
        fill(client)
        yield client


def fill(client: Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for at, fields in enumerate(odd_jobs()):
        flat = [part for pair in fields.items() for part in pair]
        pipe.execute_command("HSET", f"bull:mail:o{at}", *flat)
        pipe.lpush("bull:mail:wait", f"o{at}") if at % 2 else pipe.zadd(
            "bull:mail:failed", {f"o{at}": at}
        )
    pipe.hset("bull:mail:meta", "version", "bullmq:6")
    for at, text in enumerate(routing_jobs("odd")):
        pipe.set(f"bridge:jobs:data:r{at}", text)
        pipe.rpush("bridge:jobs:waiting", f"r{at}") if at % 2 == 0 else None
        pipe.lpush("bridge:jobs:deadletter", f"r{at}") if at % 2 else None
    for raw in (*ODD_JOBS, *files_jobs()):
        pipe.lpush("jobqueue:low_priority", raw)
        pipe.lpush("jobqueue:dead_letter", raw)
    pipe.execute()


# --- the command line ----------------------------------------------------------------------------

Said: TypeAlias = Callable[..., str]


@pytest.fixture
def said(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Said:
    """What a command prints; it works, or ends with one sentence."""
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.chdir(tmp_path)

    def said(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([*words])
        out, err = capsys.readouterr()
        sentence = err.startswith("waystation: ") and " " in err and err.count("\n") == 1
        assert not ended.value.code or out or sentence, (words, err)
        assert "Traceback" not in out + err, (words, out, err)
        assert "unexpected" not in err, (words, err)
        return out

    return said


def test_commands_add_any_json_or_say_why_not(said: Said, redis_url: str) -> None:
    # No shell passes a zero byte.
    given = [text for text in TEXTS if "\0" not in text and text]
    for text in given:
        said("bullmq", "add", "mail", "send", "--", text)
        said("routing", "add", "send", "--", text)
    with sync.Queue("mail", redis_url) as queue:
        assert queue.counts()["waiting"] >= len(JSON) - 5


LOOKS = [
    ("queues",), ("queues", "--json"), ("why", "mail"), ("why", "mail", "--json"), ("why", "t"),
    ("bullmq", "counts", "mail"), ("bullmq", "jobs", "mail", "all", "-n", "9999"),
    ("bullmq", "jobs", "mail", "failed", "--data", "a=b"), ("bullmq", "schedulers", "mail"),
    ("routing", "counts"), ("routing", "dead"), ("routing", "coverage"), ("routing", "schedules"),
    ("files", "--role=admin", "counts"), ("files", "--role=admin", "peek", "low", "--count", "100"),
    ("files", "--role=admin", "peek", "dead", "--count", "100"), ("forecast", "mail"),
]  # fmt: skip


def test_commands_show_whatever_is_stored(said: Said, store: Redis) -> None:
    for words in LOOKS:
        said(*words)
    for at in range(0, 1000, 5 * SOME):
        said("bullmq", "job", "mail", f"o{at}")
        said("why", f"mail/o{at}")
        said("routing", "show", f"r{at}")
        said("why", f"r{at}")


# --- the console ---------------------------------------------------------------------------------


async def test_the_console_shows_whatever_is_stored(
    store: Redis, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with api(redis_url) as looking:
        for path in ("overview", "workers", "schedulers", "failures", "store", "coverage"):
            await looking.get(path)
        for query in ("odd", "data.a:1", "name:odd", "state:failed"):
            await looking.get("search", params={"q": query})
        for place, failed in (("bullmq/mail", "failed"), ("routing/bridge", "dead")):
            await looking.get(f"queues/{place}")
            for state in ("waiting", failed):
                await see_all(looking, f"queues/{place}", state)
        await looking.get("queues/files/jobqueue")
        for state in ("waiting", "failed"):
            await see_all(looking, "queues/files/jobqueue", state)
    assert not [each.message for each in caplog.records if each.exc_info]


async def see_all(looking: ConsoleApi, place: str, state: str) -> None:
    for offset in itertools.count(0, 100):
        asked = {"state": state, "offset": offset, "limit": 100}
        page = await looking.here.get(f"/api/v1/{place}/jobs", params=asked)
        assert page.status_code == 200, page.text
        # Some of it is deeper than `json` reads.
        jobs = codec.decode(page.content)["jobs"]
        if not jobs:
            return
        for job in jobs[:: 2 * SOME]:
            for view in ("", "/why"):
                answer = await looking.here.get(f"/api/v1/{place}/jobs/{quote(job['id'])}{view}")
                assert answer.status_code < 500, (job, view, answer.text)


# --- assistants ----------------------------------------------------------------------------------


async def test_an_assistant_sees_whatever_is_stored(store: Redis, redis_url: str) -> None:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[Store]:
        async with await connect(redis_url) as store:
            yield store

    access = Access(opened, ConsoleOptions(), Places(), role=Role.ADMIN)
    mail = {"product": "bullmq", "queue": "mail"}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("queues", {}), ("queue", mail), ("failures", {}), ("search", {"query": "odd"}),
        *(("jobs", {**mail, "state": state}) for state in ("waiting", "failed")),
        *(("job", {**mail, "id": f"o{at}"}) for at in range(0, 1000, SOME)),
        *(("why", {"subject": f"mail/o{at}"}) for at in range(0, 1000, SOME)),
    ]  # fmt: skip
    refused: list[str] = []
    async with Client(server_of(access)) as client:
        for tool, arguments in asked:
            answer = await client.call_tool(tool, arguments)
            if answer.is_error:
                refused.append(f"{tool} {arguments}: {answer.content}")
    await access.close()
    assert not refused, "\n".join(refused)


# --- Python --------------------------------------------------------------------------------------


async def test_sync_and_tasks_carry_any_json_and_the_next_job_runs(redis_url: str) -> None:
    app = tasks.Tasks(redis_url)

    @app.task(queue="tasks")
    async def echo(value: Any) -> Any:
        return value

    def add_blocking() -> dict[str, Any]:
        added: dict[str, Any] = {}
        with sync.Queue("mail", redis_url) as queue:
            for value in VALUES:
                with suppress(InvalidInput):
                    added[queue.add("send", value).id] = value
        assert len(added) >= len(VALUES) - 1
        return added

    async def give_back(job: bullmq.Job) -> Any:
        return job.data

    added = await asyncio.to_thread(add_blocking)
    async with (
        bullmq.Queue("mail", redis_url) as queue,
        bullmq.Worker("mail", give_back, redis_url, concurrency=20),
        app,
        app.worker("tasks"),
        asyncio.timeout(4 * LIMIT_S),
    ):
        for id, value in added.items():
            assert await queue.wait(id) == value
        for value in VALUES:
            job = await echo.add(value)
            if value == {"$payload": 1}:
                with pytest.raises(bullmq.JobFailed, match="taken for an encrypted payload"):
                    await job.result()
            else:
                assert await job.result() == value

"""Operating queues from the shell: asking why, listing, acting, following, completing."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.support.command import Command
from waystation import files
from waystation.bullmq import NewJob, Queue, Schedule

HEAVY = {"redis", "rich", "yaml", "prometheus_client", "pydantic", "asyncio"}


@pytest.fixture
def shell(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path, capsys, WAYSTATION_STORE__URL=redis_url)


def on_mail(redis_url: str, step: Callable[[Queue], Coroutine[Any, Any, Any]]) -> Any:
    async def take() -> Any:
        async with Queue("mail", redis_url) as queue:
            return await step(queue)

    return asyncio.run(take())


def test_why_prints_a_sentence_and_its_evidence(shell: Command, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add("send", delay=86_400))

    result = shell("why", "mail/1")

    assert result.returncode == 0
    sentence, *evidence = result.stdout.splitlines()
    assert sentence.startswith("Job 1 is delayed until 20")
    assert "  name              send" in evidence


def test_why_knows_who_paused_a_queue_from_a_shell(shell: Command, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add("send"))
    assert shell("bullmq", "pause", "mail").returncode == 0

    [answer] = json.loads(shell("why", "1", "--json").stdout)

    assert answer["cause"] == "paused"
    assert answer["evidence"]["paused_by"].endswith(f"@{os.uname().nodename}")


def test_why_ends_with_1_when_nothing_is_known_and_takes_ids_with_a_dash(
    shell: Command, redis_url: str
) -> None:
    on_mail(redis_url, lambda queue: queue.add("send", job_id="-x7"))

    assert shell("why", "nothing").returncode == 1
    assert "Job -x7 waits" in shell("why", "--", "-x7").stdout
    assert shell("why", "1", "--product", "celery").returncode == 2


def test_why_says_whose_job_it_is_where_several_have_the_id(shell: Command, redis_url: str) -> None:
    async def add(queue: Queue) -> None:
        await queue.add("send")
        async with Queue("sms", redis_url) as other:
            await other.add("send")

    on_mail(redis_url, add)

    lines = shell("why", "1").stdout.splitlines()

    assert [each.split() for each in lines if "queue  " in each] == [
        ["queue", "mail"],
        ["queue", "sms"],
    ]
    assert "  queue" not in shell("why", "mail/1").stdout


def test_why_knows_a_file_whose_name_is_no_text(
    shell: Command, redis_url: str, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"bad\xff.txt")
    odd.write_text("x")

    async def add() -> None:
        async with files.Queue(redis_url) as lane:
            await lane.add(odd)

    asyncio.run(add())

    assert r"bad\xff.txt waits" in shell("why", str(odd)).stdout


def test_jobs_are_listed_by_name_data_and_time(shell: Command, redis_url: str) -> None:
    jobs = [
        NewJob("send", {"tenant": "acme", "to": {"id": 7}}),
        NewJob("send", {"tenant": "other"}),
        NewJob("fax", {"tenant": "acme"}),
    ]
    on_mail(redis_url, lambda queue: queue.add_many(jobs))

    def ids(*options: str) -> list[str]:
        found = shell("bullmq", "jobs", "mail", "all", "--json", "--oldest", *options)
        return [job["id"] for job in json.loads(found.stdout)]

    assert ids() == ["1", "2", "3"]
    assert ids("--name", "send", "--data", "tenant=acme") == ["1"]
    assert ids("--data", "to.id=7") == ["1"]
    assert ids("--since", "1h", "-n", "2") == ["1", "2"]
    assert ids("--until", "2020-01-01") == []
    assert shell("bullmq", "jobs", "mail", "--data", "tenant").returncode == 2
    assert shell("bullmq", "jobs", "mail", "--since", "yesterday").returncode == 2


def test_schedulers_are_listed_and_removed(shell: Command, redis_url: str) -> None:
    on_mail(
        redis_url, lambda queue: queue.schedulers.upsert("nightly", Schedule(pattern="0 3 * * *"))
    )

    [listed] = json.loads(shell("bullmq", "schedulers", "mail", "--json").stdout)

    assert (listed["id"], listed["pattern"]) == ("nightly", "0 3 * * *")
    assert (
        "nightly  nightly  0 3 * * *  this machine's"
        in shell("bullmq", "schedulers", "mail").stdout
    )
    assert shell("bullmq", "remove-scheduler", "mail", "nightly").returncode == 0
    assert shell("bullmq", "remove-scheduler", "mail", "nightly").returncode == 1


def test_a_scheduler_is_paused_and_resumed(shell: Command, redis_url: str) -> None:
    on_mail(
        redis_url, lambda queue: queue.schedulers.upsert("nightly", Schedule(pattern="0 3 * * *"))
    )

    assert shell("bullmq", "pause-scheduler", "mail", "nightly").stdout == "paused\n"
    assert shell("bullmq", "pause-scheduler", "mail", "nightly").stdout == "it was paused already\n"
    assert "this machine's  paused since 20" in shell("bullmq", "schedulers", "mail").stdout
    [listed] = json.loads(shell("bullmq", "schedulers", "mail", "--json").stdout)
    assert (listed["next_at"], listed["paused_at"] is None) == (None, False)
    assert on_mail(redis_url, lambda queue: queue.counts("delayed")) == {"delayed": 0}
    assert "resumed, next at 20" in shell("bullmq", "resume-scheduler", "mail", "nightly").stdout
    assert shell("bullmq", "resume-scheduler", "mail", "nightly").returncode == 1
    assert shell("bullmq", "pause-scheduler", "mail", "nobody").returncode == 1
    assert on_mail(redis_url, lambda queue: queue.counts("delayed")) == {"delayed": 1}


def test_jobs_are_promoted_and_removed_by_name(shell: Command, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add_many([NewJob("send")] * 2))
    on_mail(redis_url, lambda queue: queue.add("send", delay=86_400))

    assert shell("bullmq", "promote", "mail", "3").stdout == "1 promoted\n"
    removed = shell("bullmq", "remove", "mail", "1", "2", "99")

    assert (removed.stdout, removed.returncode) == ("2 removed\n", 1)
    assert "there is no job 99" in removed.stderr
    assert "was removed by" in shell("why", "mail/1").stdout
    assert on_mail(redis_url, lambda queue: queue.counts("waiting")) == {"waiting": 1}


def test_a_queue_is_deleted_only_when_that_is_meant(shell: Command, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add("send"))

    assert shell("bullmq", "obliterate", "mail").returncode == 1
    assert shell("bullmq", "obliterate", "mail", "--yes").stdout == "deleted\n"
    assert shell("bullmq", "counts", "mail").returncode == 1


def test_a_queue_with_active_jobs_is_neither_deleted_nor_paused(
    shell: Command, redis_url: str
) -> None:
    on_mail(redis_url, lambda queue: queue.add("send"))
    with Redis.from_url(redis_url) as client:
        client.lmove("bull:mail:wait", "bull:mail:active")

    refused = shell("bullmq", "obliterate", "mail", "--yes")

    assert refused.returncode != 0
    assert "has active jobs" in refused.stderr
    assert on_mail(redis_url, lambda queue: queue.is_paused()) is False
    assert shell("bullmq", "obliterate", "mail", "--yes", "--force").stdout == "deleted\n"


def test_events_are_followed(shell: Command, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add("send"))

    result = shell("bullmq", "follow", "mail", "--after", "0-0", "--count", "2", "--json")

    names = [json.loads(line)["name"] for line in result.stdout.splitlines()]
    assert names == ["added", "waiting"]


@pytest.mark.parametrize("command", ["why", "bullmq", "bullmq jobs", "completion"])
def test_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    words = [*command.split(), "--help"]
    script = (
        "import atexit, sys; from waystation.cli.root import run; "
        f"atexit.register(lambda: print('modules:', *sys.modules)); run({words!r})"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    text, _, loaded = result.stdout.decode().partition("modules:")
    assert text.startswith(f"Usage: waystation {command} ")
    assert set(loaded.split()) & HEAVY == set()


def test_help_is_that_of_the_command_wherever_it_is_loaded(shell: Command) -> None:
    for words in ("pipeline run", "room serve", "routing work", "console key"):
        result = shell(*words.split(), "--help")
        assert (result.stdout.split(" [")[0], result.returncode) == (
            f"Usage: waystation {words}",
            0,
        )


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("bull", "bullmq"), ("bullmq sched", "schedulers"), ("bullmq jobs --da", "--data")],
)
def test_a_shell_completes_commands_and_options(typed: str, offered: str) -> None:
    words = f"waystation {typed}"
    result = subprocess.run(
        [sys.executable, "-m", "waystation"],
        env=os.environ
        | {
            "_WAYSTATION_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        check=True,
    )
    assert result.stdout.decode().split() == [offered]


def test_the_script_for_a_shell_is_printed(shell: Command) -> None:
    assert "_WAYSTATION_COMPLETE=complete_bash" in shell("completion", "bash").stdout
    assert shell("completion", "tcsh").returncode == 2

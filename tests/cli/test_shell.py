"""Operating queues from the shell: asking why, listing, acting, following, completing."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis import Redis

from waystation import files
from waystation.bullmq import NewJob, Queue, Schedule
from waystation.cli.root import run

HEAVY = {"redis", "rich", "yaml", "prometheus_client", "pydantic", "asyncio"}


class Ended(NamedTuple):
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int


Shell = Callable[..., Ended]


@pytest.fixture
def shell(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.chdir(tmp_path)

    def command(*args: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            run(args)
        printed = capsys.readouterr()
        return Ended(printed.out, printed.err, int(ended.value.code or 0))

    return command


def on_mail(redis_url: str, step: Callable[[Queue], Coroutine[Any, Any, Any]]) -> Any:
    async def take() -> Any:
        async with Queue("mail", redis_url) as queue:
            return await step(queue)

    return asyncio.run(take())


def test_why_prints_a_sentence_and_its_evidence(shell: Shell, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add("send", delay=86_400))

    result = shell("why", "mail/1")

    assert result.code == 0
    sentence, *evidence = result.out.splitlines()
    assert sentence.startswith("Job 1 is delayed until 20")
    assert "  name              send" in evidence


def test_why_knows_who_paused_a_queue_from_a_shell(shell: Shell, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add("send"))
    assert shell("bullmq", "pause", "mail").code == 0

    [answer] = json.loads(shell("why", "1", "--json").out)

    assert answer["cause"] == "paused"
    assert answer["evidence"]["paused_by"].endswith(f"@{os.uname().nodename}")


def test_why_ends_with_1_when_nothing_is_known_and_takes_ids_with_a_dash(
    shell: Shell, redis_url: str
) -> None:
    on_mail(redis_url, lambda queue: queue.add("send", job_id="-x7"))

    assert shell("why", "nothing").code == 1
    assert "Job -x7 waits" in shell("why", "--", "-x7").out
    assert shell("why", "1", "--product", "celery").code == 2


def test_why_says_whose_job_it_is_where_several_have_the_id(shell: Shell, redis_url: str) -> None:
    async def add(queue: Queue) -> None:
        await queue.add("send")
        async with Queue("sms", redis_url) as other:
            await other.add("send")

    on_mail(redis_url, add)

    lines = shell("why", "1").out.splitlines()

    assert [each.split() for each in lines if "queue  " in each] == [
        ["queue", "mail"],
        ["queue", "sms"],
    ]
    assert "  queue" not in shell("why", "mail/1").out


def test_why_knows_a_file_whose_name_is_no_text(
    shell: Shell, redis_url: str, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"bad\xff.txt")
    odd.write_text("x")

    async def add() -> None:
        async with files.Queue(redis_url) as lane:
            await lane.add(odd)

    asyncio.run(add())

    assert r"bad\xff.txt waits" in shell("why", str(odd)).out


def test_jobs_are_listed_by_name_data_and_time(shell: Shell, redis_url: str) -> None:
    jobs = [
        NewJob("send", {"tenant": "acme", "to": {"id": 7}}),
        NewJob("send", {"tenant": "other"}),
        NewJob("fax", {"tenant": "acme"}),
    ]
    on_mail(redis_url, lambda queue: queue.add_many(jobs))

    def ids(*options: str) -> list[str]:
        found = shell("bullmq", "jobs", "mail", "all", "--json", "--oldest", *options)
        return [job["id"] for job in json.loads(found.out)]

    assert ids() == ["1", "2", "3"]
    assert ids("--name", "send", "--data", "tenant=acme") == ["1"]
    assert ids("--data", "to.id=7") == ["1"]
    assert ids("--since", "1h", "-n", "2") == ["1", "2"]
    assert ids("--until", "2020-01-01") == []
    assert shell("bullmq", "jobs", "mail", "--data", "tenant").code == 2
    assert shell("bullmq", "jobs", "mail", "--since", "yesterday").code == 2


def test_schedulers_are_listed_and_removed(shell: Shell, redis_url: str) -> None:
    on_mail(
        redis_url, lambda queue: queue.schedulers.upsert("nightly", Schedule(pattern="0 3 * * *"))
    )

    [listed] = json.loads(shell("bullmq", "schedulers", "mail", "--json").out)

    assert (listed["id"], listed["pattern"]) == ("nightly", "0 3 * * *")
    assert (
        "nightly  nightly  0 3 * * *  this machine's" in shell("bullmq", "schedulers", "mail").out
    )
    assert shell("bullmq", "remove-scheduler", "mail", "nightly").code == 0
    assert shell("bullmq", "remove-scheduler", "mail", "nightly").code == 1


def test_a_scheduler_is_paused_and_resumed(shell: Shell, redis_url: str) -> None:
    on_mail(
        redis_url, lambda queue: queue.schedulers.upsert("nightly", Schedule(pattern="0 3 * * *"))
    )

    assert shell("bullmq", "pause-scheduler", "mail", "nightly").out == "paused\n"
    assert shell("bullmq", "pause-scheduler", "mail", "nightly").out == "it was paused already\n"
    assert "this machine's  paused since 20" in shell("bullmq", "schedulers", "mail").out
    [listed] = json.loads(shell("bullmq", "schedulers", "mail", "--json").out)
    assert (listed["next_at"], listed["paused_at"] is None) == (None, False)
    assert on_mail(redis_url, lambda queue: queue.counts("delayed")) == {"delayed": 0}
    assert "resumed, next at 20" in shell("bullmq", "resume-scheduler", "mail", "nightly").out
    assert shell("bullmq", "resume-scheduler", "mail", "nightly").code == 1
    assert shell("bullmq", "pause-scheduler", "mail", "nobody").code == 1
    assert on_mail(redis_url, lambda queue: queue.counts("delayed")) == {"delayed": 1}


def test_jobs_are_promoted_and_removed_by_name(shell: Shell, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add_many([NewJob("send")] * 2))
    on_mail(redis_url, lambda queue: queue.add("send", delay=86_400))

    assert shell("bullmq", "promote", "mail", "3").out == "1 promoted\n"
    removed = shell("bullmq", "remove", "mail", "1", "2", "99")

    assert (removed.out, removed.code) == ("2 removed\n", 1)
    assert "there is no job 99" in removed.err
    assert "was removed by" in shell("why", "mail/1").out
    assert on_mail(redis_url, lambda queue: queue.counts("waiting")) == {"waiting": 1}


def test_a_queue_is_deleted_only_when_that_is_meant(shell: Shell, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add("send"))

    assert shell("bullmq", "obliterate", "mail").code == 1
    assert shell("bullmq", "obliterate", "mail", "--yes").out == "deleted\n"
    assert shell("bullmq", "counts", "mail").code == 1


def test_a_queue_with_active_jobs_is_neither_deleted_nor_paused(
    shell: Shell, redis_url: str
) -> None:
    on_mail(redis_url, lambda queue: queue.add("send"))
    with Redis.from_url(redis_url) as client:
        client.lmove("bull:mail:wait", "bull:mail:active")

    refused = shell("bullmq", "obliterate", "mail", "--yes")

    assert refused.code != 0
    assert "has active jobs" in refused.err
    assert on_mail(redis_url, lambda queue: queue.is_paused()) is False
    assert shell("bullmq", "obliterate", "mail", "--yes", "--force").out == "deleted\n"


def test_events_are_followed(shell: Shell, redis_url: str) -> None:
    on_mail(redis_url, lambda queue: queue.add("send"))

    result = shell("bullmq", "follow", "mail", "--after", "0-0", "--count", "2", "--json")

    names = [json.loads(line)["name"] for line in result.out.splitlines()]
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


def test_help_is_that_of_the_command_wherever_it_is_loaded(shell: Shell) -> None:
    for words in ("pipeline run", "room serve", "routing work", "console key"):
        result = shell(*words.split(), "--help")
        assert (result.out.split(" [")[0], result.code) == (f"Usage: waystation {words}", 0)


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


def test_the_script_for_a_shell_is_printed(shell: Shell) -> None:
    assert "_WAYSTATION_COMPLETE=complete_bash" in shell("completion", "bash").out
    assert shell("completion", "tcsh").code == 2

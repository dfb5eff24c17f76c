"""`waystation bullmq`, run in this process: what it prints and how it ends."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.support.command import Command
from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.support.processes import running
from waystation.bullmq import (
    Job,
    JobOptions,
    PayloadOptions,
    Queue,
    SyncJob,
    Worker,
)
from waystation.core.store.connection import connect
from waystation.sync import Queue as BlockingQueue


def counted(bullmq: Command, queue: str, state: str) -> int:
    return json.loads(bullmq("counts", queue, "--json").stdout)[state]


def fail_one_job(redis_url: str) -> str:
    """The id of a job of the queue `mail` that has failed for good."""

    def refuse(job: Job) -> None:
        raise LookupError("no such address")

    async def fail() -> str:
        async with Queue("mail", redis_url) as queue, Worker("mail", refuse, redis_url):
            job = await queue.add("send", {"to": "ada"}, JobOptions(attempts=1))
            await asyncio.gather(job.wait(), return_exceptions=True)
            return job.id

    return asyncio.run(fail())


def test_a_job_that_is_added_can_be_seen(bullmq: Command) -> None:
    id = bullmq("add", "mail", "send", '{"to": "ada"}', "--priority", "2").stdout.strip()

    assert counted(bullmq, "mail", "prioritized") == 1
    assert "prioritized               1" in bullmq("counts", "mail").stdout
    assert bullmq("jobs", "mail", "prioritized").stdout.split()[::2] == [id, "send"]
    shown = json.loads(bullmq("job", "mail", id, "--json").stdout)
    assert (shown["state"], shown["data"]) == ("prioritized", {"to": "ada"})


def test_payloads_are_sealed_as_the_settings_say(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys, place = f"k1={base64.b64encode(b'1' * 32).decode()}", tmp_path / "blobs"
    place.mkdir()
    (tmp_path / "shop.py").write_text("def send(job):\n    return job.data['to'][::-1]\n")
    given = {
        "WAYSTATION_STORE__URL": redis_url,
        "WAYSTATION_BULLMQ__PAYLOADS__KEYS": keys,
        "WAYSTATION_BULLMQ__PAYLOADS__BLOBS": str(place),
        "WAYSTATION_BULLMQ__PAYLOADS__ABOVE": "50",
    }
    monkeypatch.chdir(tmp_path)
    bullmq = Command(tmp_path, capsys, "bullmq", **given)
    small = bullmq("add", "mail", "send", '{"to": "ada"}').stdout.strip()
    large = bullmq("add", "mail", "send", json.dumps({"to": "x" * 99})).stdout.strip()
    shown = bullmq("job", "mail", small).stdout
    assert "ada" not in shown
    assert "payload           the data is encrypted with the key k1\n" in shown
    note = json.loads(bullmq("job", "mail", large, "--json").stdout)["payload"]
    assert note.startswith(
        "the data is encrypted with the key k1 and kept outside the store as mail/"
    )
    command = ("-m", "waystation", "bullmq", "work", "shop:send", "mail")
    payloads = PayloadOptions(keys=keys, blobs=place, above=50)
    with (
        running(tmp_path, *command, **given),
        BlockingQueue("mail", redis_url, payloads=payloads) as queue,
    ):
        assert queue.wait(small, LIMIT_S) == "ada"
        assert queue.wait(large, LIMIT_S) == "x" * 99
    assert bullmq("sweep", "mail", "--older", "0s", "--dry-run").stdout == "0 would be deleted\n"


def test_a_key_ring_that_cannot_be_read_is_refused_and_not_shown(bullmq: Command) -> None:
    ended = bullmq("counts", "mail", WAYSTATION_BULLMQ__PAYLOADS__KEYS="k1=nonsense")
    assert ended.returncode == 2
    assert "PAYLOADS__KEYS) must be name=base64" in ended.stderr
    assert "nonsense" not in ended.stderr


def test_a_failed_job_says_why_and_can_run_again(bullmq: Command, redis_url: str) -> None:
    id = fail_one_job(redis_url)

    assert "no such address" in bullmq("jobs", "mail", "failed").stdout
    shown = json.loads(bullmq("job", "mail", id, "--json").stdout)
    assert shown["failed_reason"] == "no such address"
    assert "LookupError" in shown["stacktrace"][0]
    lines = bullmq("job", "mail", id).stdout.splitlines()
    assert "failed_reason     no such address" in lines
    trace = lines.index("stacktrace:")
    assert lines[trace + 1] == "  Traceback (most recent call last):"
    assert lines[trace + 2].endswith("in refuse")
    assert lines[-1] == "  LookupError: no such address"
    assert bullmq("retry", "mail", id).stdout == "1 retried\n"
    assert bullmq("retry", "mail").stdout == "0 retried\n"
    assert counted(bullmq, "mail", "waiting") == 1


def test_a_job_that_was_completed_after_all_is_listed_without_a_reason(
    bullmq: Command, redis_url: str
) -> None:
    def refuse_once(job: SyncJob) -> None:
        if job.attempt == 1:
            raise LookupError("no such address")

    async def complete() -> None:
        async with Queue("mail", redis_url) as queue, Worker("mail", refuse_once, redis_url):
            job = await queue.add("send", {}, attempts=2, backoff=None)
            await queue.wait(job.id, LIMIT_S)

    asyncio.run(complete())
    assert "no such address" not in bullmq("jobs", "mail", "completed").stdout


def test_a_queue_is_paused_resumed_and_emptied(bullmq: Command) -> None:
    for delay in ("0s", "0s", "1m"):
        bullmq("add", "mail", "send", "--delay", delay)

    assert bullmq("pause", "mail").stdout == "paused\n"
    assert "the queue is paused" in bullmq("counts", "mail").stdout
    assert bullmq("resume", "mail").stdout == "resumed\n"
    assert counted(bullmq, "mail", "paused") == 0
    assert bullmq("drain", "mail", "--yes").stdout == "2 removed\n"
    assert bullmq("clean", "mail", "delayed", "--yes").stdout == "1 removed\n"


def test_a_queue_without_jobs_is_paused_in_advance_only(bullmq: Command) -> None:
    for command in ("pause", "resume"):
        refused = bullmq(command, "mial")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "there is no queue bull:mial" in refused.stderr

    assert bullmq("pause", "mial", "--in-advance").stdout == "paused\n"
    assert "the queue is paused" in bullmq("counts", "mial").stdout
    assert bullmq("resume", "mial").stdout == "resumed\n"


@pytest.mark.parametrize(
    "words", [("clean", "mial"), ("drain", "mial"), ("obliterate", "mial"), ("workers", "mial")]
)
def test_a_mistyped_name_is_refused_before_anything_is_asked(
    bullmq: Command, words: tuple[str, ...]
) -> None:
    refused = bullmq(*words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there is no queue bull:mial" in refused.stderr


def test_a_wrong_age_is_refused_before_anything_is_asked(bullmq: Command) -> None:
    bullmq("add", "mail", "send")
    refused = bullmq("clean", "mail", "completed", "--older", "foo")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "a duration is a number with a unit" in refused.stderr


def test_a_job_is_cancelled_with_a_reason(bullmq: Command) -> None:
    id = bullmq("add", "mail", "send").stdout.strip()
    assert bullmq("cancel", "mail", id, "--reason", "not needed").stdout == "1 cancelled\n"
    again = bullmq("cancel", "mail", id)
    assert (again.stdout, again.returncode) == ("0 cancelled\n", 0)
    other = bullmq("add", "mail", "send").stdout.strip()
    part = bullmq("cancel", "mail", "17", other)
    assert (part.stdout, part.returncode) == ("1 cancelled\n", 1)
    assert part.stderr == "waystation: there is no job 17\n"
    assert json.loads(bullmq("job", "mail", id, "--json").stdout)["failed_reason"] == "not needed"


def test_jobs_beyond_the_count_are_told(bullmq: Command) -> None:
    for _ in range(2):
        bullmq("add", "mail", "send")
    some = bullmq("jobs", "mail", "-n", "1")
    assert (len(some.stdout.splitlines()), "there are more" in some.stderr) == (1, True)


def test_all_failed_jobs_that_are_as_asked_for_run_again(bullmq: Command, redis_url: str) -> None:
    id = fail_one_job(redis_url)
    like = ("--error", "ADDRESS", "--name", "send", "--data", "to=ada", "--since", "1h")

    shown = bullmq("retry", "mail", *like, "--dry-run").stdout
    assert (id in shown, "no such address" in shown) == (True, True)
    assert shown.endswith("1 would be retried\n")
    assert bullmq("retry", "mail", "--error", "timeout").stdout == "0 retried\n"
    assert bullmq("retry", "mail", "--data", "to=eve").stdout == "0 retried\n"
    assert counted(bullmq, "mail", "failed") == 1
    assert bullmq("jobs", "mail", "failed", "--error", "address").stdout.split()[0] == id
    assert bullmq("retry", "mail", *like).stdout.endswith("1 retried\n")
    assert counted(bullmq, "mail", "waiting") == 1


def test_all_jobs_that_are_as_asked_for_are_promoted_cancelled_and_removed(bullmq: Command) -> None:
    for name in ("send", "send", "print"):
        bullmq("add", "mail", name, "--delay", "1h")
    for _ in range(7):
        bullmq("add", "mail", "print")

    assert bullmq("promote", "mail", "--name", "send").stdout.endswith("2 promoted\n")
    assert bullmq("cancel", "mail", "--name", "send", "--yes").stdout.endswith("2 cancelled\n")
    shown = bullmq("remove", "mail", "--state", "waiting", "--dry-run").stdout
    assert "\u2026 and 2 more" in shown
    assert shown.endswith("7 would be removed\n")
    assert bullmq("remove", "mail", "--state", "waiting", "--yes").stdout.endswith("7 removed\n")
    left = [counted(bullmq, "mail", state) for state in ("failed", "delayed", "waiting")]
    assert left == [2, 1, 0]


def test_jobs_that_are_as_asked_for_are_not_removed_without_a_yes(bullmq: Command) -> None:
    bullmq("add", "mail", "send")
    assert bullmq("remove", "mail", "--name", "send").returncode == 1
    assert counted(bullmq, "mail", "waiting") == 1


def test_queues_of_another_prefix_are_reached(bullmq: Command) -> None:
    bullmq("--prefix", "shop", "add", "mail", "send")

    assert bullmq("counts", "mail").returncode == 1
    assert "waiting                   1" in bullmq("--prefix", "shop", "counts", "mail").stdout


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("add", "mail", "send", "{"), "the data must be JSON"),
        (("add", "mail", "send", "--attempts", "0"), "attempts must be at least 1, got 0"),
        (("add", "mail", "send", "--job-id", "17"), "a job id must not be a whole number"),
        (("retry", "mail", "1", "--name", "send"), "name either ids or what the jobs must be"),
        (("remove", "mail"), "name the ids of jobs, or what they must be"),
        (("cancel", "mail"), "name the ids of jobs, or what they must be"),
        (
            ("remove", "mail", "--state", "active", "--yes"),
            "jobs that are active cannot be removed",
        ),
        (("jobs", "mail", "lost"), "a state is one of waiting, active"),
        (("clean", "mail", "lost", "--yes"), "a state is one of waiting, active"),
        (("work", "nowhere", "mail"), "a handler is given as module:name, got 'nowhere'"),
        (("work", "nowhere:send", "mail"), "'nowhere' cannot be imported: there is no nowhere in"),
        (("work", "json:sent", "mail"), "json has no sent"),
        (("work", "json:laods", "mail"), "json has no laods; did you mean load"),
        (("work", "json:__doc__", "mail"), "json:__doc__ must be a function"),
        (("work", "json:loads", "mail", "-o", "timeout"), "--option wants NAME=VALUE"),
        (
            ("work", "json:loads", "mail", "-o", "tiemout=3s"),
            "bullmq.worker.tiemout (--option) is not a setting; "
            "did you mean bullmq.worker.timeout?",
        ),
        (
            ("work", "json:loads", "mail", "-o", "timeout=soon"),
            "bullmq.worker.timeout (--option) wants a duration such as 500ms",
        ),
        (
            ("work", "json:loads", "mail", "--concurrency", "0"),
            "bullmq.worker.concurrency (--concurrency) must be at least 1, got 0",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(
    bullmq: Command, args: tuple[str, ...], sentence: str
) -> None:
    ended = bullmq(*args)

    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_job_that_is_not_there_is_no_success(bullmq: Command) -> None:
    bullmq("add", "mail", "send")
    ended = bullmq("job", "mail", "17")

    assert (ended.returncode, ended.stderr) == (
        1,
        "waystation: there is no job 17 in the queue mail\n",
    )


async def test_a_worker_is_seen_works_and_ends_when_asked(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("handlers = {'send': lambda job: 'sent ' + job.data}\n")
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "waystation", "bullmq", "work", "shop:handlers", "mail"),
        cwd=tmp_path,
        env=os.environ | {"WAYSTATION_STORE__URL": redis_url},
    )
    try:
        async with Queue("mail", redis_url) as queue:
            job = await queue.add("send", "a letter")
            assert await job.wait() == "sent a letter"
            assert len(await queue.workers()) == 1
            assert 'bullmq_job_completed_total{queue="mail"} 1' in await queue.prometheus_text()
    finally:
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0


async def test_several_processes_work_and_show_their_metrics_as_one(
    redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text("import os\ndef send(job): return os.getpid()\n")
    port = free_port()
    workers = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "waystation", "bullmq", "work", "shop:send", "mail"),
        *("--processes", "2"),
        cwd=tmp_path,
        env=os.environ
        | {"WAYSTATION_STORE__URL": redis_url, "WAYSTATION_TELEMETRY__METRICS_PORT": str(port)},
    )
    try:
        async with Queue("mail", redis_url) as queue, asyncio.timeout(LIMIT_S):
            while len(await queue.workers()) < 2:
                await asyncio.sleep(0.05)
            jobs = await queue.add_many([("send", None)] * 40)
            pids = {await job.wait() for job in jobs}
            assert workers.pid not in pids
            # A job is completed a moment before its worker has counted it.
            while b'jobs_completed_total{queue="mail"} 40.0' not in await metrics_at(port):
                await asyncio.sleep(0.05)
    finally:
        workers.send_signal(signal.SIGTERM)
        assert await workers.wait() == 0


async def metrics_at(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    page = await reader.read()
    writer.close()
    return page


async def test_one_process_works_on_several_queues_with_any_option_of_a_worker(
    redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text("import time\ndef late(job): time.sleep(60)\n")
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "waystation", "bullmq", "work", "shop:late", "mail", "sms"),
        *("-o", "timeout=50ms"),
        cwd=tmp_path,
        env=os.environ | {"WAYSTATION_STORE__URL": redis_url},
    )
    try:
        for name in ("mail", "sms"):
            async with Queue(name, redis_url) as queue:
                job = await queue.add("send", attempts=1)
                with pytest.raises(Exception, match=r"0\.05 s|50 ms"):
                    await job.wait()
    finally:
        worker.send_signal(signal.SIGTERM)
        await worker.wait()


def test_what_is_listed_stands_in_columns(bullmq: Command) -> None:
    for name in ("send", "a longer name"):
        bullmq("add", "mail", name, "--job-id", f"id of {name}")
    first, second = bullmq("jobs", "mail", "--oldest").stdout.splitlines()
    assert first.index("send", 10) == second.index("a longer name", 10)


def test_columns_have_headings_on_a_terminal_only(
    bullmq: Command, redis_url: str, tmp_path: Path
) -> None:
    id = bullmq("add", "mail", "send").stdout.strip()
    assert bullmq("jobs", "mail").stdout.startswith(id)

    terminal, end = os.openpty()
    environ = os.environ | {"WAYSTATION_STORE__URL": redis_url}
    for words in (("jobs", "mail"), ("jobs", "mail", "all")):
        subprocess.run(
            (sys.executable, "-m", "waystation", "bullmq", *words),
            cwd=tmp_path,
            env=environ,
            stdout=end,
            check=True,
        )
    os.close(end)
    with os.fdopen(terminal) as shown:
        heads = [shown.readline().split(), shown.readline()[: len(id)], shown.readline().split()]
    assert heads == [
        ["id", "created", "name", "error"],
        id,
        ["id", "state", "created", "name", "error"],
    ]


def test_the_steps_of_a_job_are_shown(bullmq: Command, redis_url: str) -> None:
    async def order(job: Job) -> None:
        await job.step("charge", lambda: {"paid": 7})

    async def work() -> str:
        async with Queue("mail", redis_url) as queue, Worker("mail", order, redis_url):
            job = await queue.add("order")
            await queue.wait(job.id, LIMIT_S)
            return job.id

    id = asyncio.run(work())
    assert json.loads(bullmq("job", "mail", id, "--json").stdout)["steps"] == {
        "charge": {"paid": 7}
    }
    assert 'steps:\n  charge          {"paid":7}\n' in bullmq("job", "mail", id).stdout


def test_a_list_of_nothing_says_so_where_no_program_reads_it(bullmq: Command) -> None:
    bullmq("add", "mail", "send")
    for asked, said in (
        (("jobs", "mail", "failed"), "mail has no jobs that are failed\n"),
        (("jobs", "mail", "all", "--name", "fax"), "mail has no jobs, or none like that\n"),
        (("workers", "mail"), "mail has no workers\n"),
    ):
        listed = bullmq(*asked)
        assert (listed.stdout, listed.stderr) == ("", said)


def test_code_and_command_in_one_directory_meet_on_one_store(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    bullmq = Command(tmp_path, capsys, "bullmq")
    (tmp_path / "waystation.yaml").write_text(f"store:\n  url: {redis_url}\n")

    async def add() -> None:
        async with Queue("mail") as queue:
            await queue.add("send")

    asyncio.run(add())
    assert counted(bullmq, "mail", "waiting") == 1
    assert not (tmp_path / ".waystation").exists()


@pytest.mark.parametrize(
    "args", [("counts",), ("jobs",), ("retry",), ("clean", "--yes"), ("drain", "--yes")]
)
def test_a_queue_that_is_not_there_is_no_success(bullmq: Command, args: tuple[str, ...]) -> None:
    bullmq("add", "mail", "send")
    verb, *options = args
    ended = bullmq(verb, "mial", *options)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "waystation: there is no queue bull:mial; did you mean mail?\n"
    assert bullmq(verb, "mail", *options).returncode == 0


def test_reading_a_mistyped_queue_leaves_nothing_behind(bullmq: Command, redis_url: str) -> None:
    for words in (("counts",), ("jobs",), ("job", "1"), ("workers",), ("schedulers",), ("groups",)):
        verb, *rest = words
        refused = bullmq(verb, "invoices", *rest)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "there is no queue bull:invoices; are its name and the store " in refused.stderr
        assert redis_url in refused.stderr
    assert keys_at(redis_url) == []


async def test_following_a_queue_that_is_not_there_says_so_and_waits(
    redis_url: str, tmp_path: Path
) -> None:
    async with Queue("mail", redis_url) as queue:
        await queue.add("send")
    following = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "waystation", "bullmq", "follow", "mial", "--count", "1"),
        cwd=tmp_path,
        env=os.environ | {"WAYSTATION_STORE__URL": redis_url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert following.stderr
    assert following.stdout
    try:
        async with asyncio.timeout(LIMIT_S), Queue("mial", redis_url) as queue:
            note = await following.stderr.readline()
            assert note == (
                b"there is no queue bull:mial; did you mean mail? Waiting for its first job.\n"
            )
            assert keys_of("mial", redis_url) == []
            # It listens a moment after the note, and only to what happens then.
            while following.returncode is None:
                await queue.add("send")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(following.wait()), 0.2)
            assert b"added" in await following.stdout.read()
    finally:
        if following.returncode is None:
            following.kill()
            await following.wait()


def test_a_queue_of_which_only_the_settings_are_left_is_deleted(
    bullmq: Command, redis_url: str
) -> None:
    with BlockingQueue("mail", redis_url) as queue:
        queue.limits.set_concurrency(3)
    assert keys_at(redis_url) == [b"bull:mail:meta"]
    assert bullmq("counts", "mail").returncode == 0
    assert bullmq("obliterate", "mail", "--yes").stdout == "deleted\n"
    assert keys_at(redis_url) == []


def keys_at(redis_url: str, pattern: str = "*") -> list[bytes]:
    with Redis.from_url(redis_url) as redis:
        found: Any = redis.keys(pattern)
        return sorted(found)


def keys_of(queue: str, redis_url: str) -> list[bytes]:
    return keys_at(redis_url, f"bull:{queue}:*")


def test_a_state_is_looked_at_before_anything_is_asked(bullmq: Command) -> None:
    for state in ("nonsense", "waiting-children"):
        ended = bullmq("clean", "mail", state)
        assert ended.returncode == 2
        assert "Remove" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ("x = 1\ny = undefined_name\n", "shop.py:2", "NameError: name 'undefined_name'"),
        ("import nothere\n", "shop.py:1", "ModuleNotFoundError: No module named 'nothere'"),
        ("\ndef send(job:\n", "shop.py:2", "SyntaxError"),
        ("import helper\n", "helper.py:1", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_mistake_in_the_users_module_is_named_with_its_place(
    bullmq: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    place: str,
    sentence: str,
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("shop", "helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "helper.py").write_text("1 / 0\n")
    (tmp_path / "shop.py").write_text(text)
    ended = bullmq("work", "shop:send", "mail")
    assert ended.returncode == 2
    assert ended.stderr.startswith("waystation: 'shop' cannot be imported: ")
    assert f"{place}: {sentence}" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "raw",
    ['{"to": "party \\ud83c"}', "[" * 1500 + "]" * 1500, "{oops"],
    ids=["half", "deep", "bad"],
)
def test_a_job_is_shown_whatever_it_carries(bullmq: Command, redis_url: str, raw: str) -> None:
    async def put() -> None:
        async with Queue("mail", redis_url) as queue:
            job = await queue.add("send")
            async with await connect(redis_url) as store:
                await store.redis.hset(f"bull:mail:{job.id}", "data", raw)  # pyright: ignore[reportUnknownMemberType]

    asyncio.run(put())

    for shown in (bullmq("job", "mail", "1"), bullmq("job", "mail", "1", "--json")):
        assert shown.returncode == 0
        assert raw.replace(" ", "")[:5] in shown.stdout.replace(" ", "")

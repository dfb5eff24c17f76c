"""`waystation routing`, run in this process: what it prints and how it ends."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from redis import Redis

from tests.support.command import Command
from tests.support.patience import LIMIT_S
from waystation.routing import Queue, Target
from waystation.routing.registry import Profile


@pytest.fixture
def routing(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path, capsys, "routing", WAYSTATION_STORE__URL=redis_url)


def test_a_job_nobody_can_serve_is_reported_with_what_is_missing(routing: Command) -> None:
    put = routing("add", "resize", '{"a": 1}', "--capability", "gpu")
    assert put.returncode == 0

    found = routing("coverage")

    assert found.returncode == 1
    assert "1  resize  nobody fits: no worker is alive" in found.stdout
    assert put.stdout.strip() in found.stdout
    shown = json.loads(routing("show", put.stdout.strip()).stdout)
    [why] = shown["why"]
    assert (why["why"], why["text"]) == ("unmatched", "nobody fits: no worker is alive")


@pytest.fixture
def worker(redis_url: str) -> None:
    """Somebody in the registry who could do anything."""
    profile = Profile(server="w1")
    with Redis.from_url(redis_url) as redis:
        redis.set("bridge:workers:w1", profile.described())
        redis.set("bridge:workers:heartbeat:w1", "1", ex=600)
        redis.sadd("bridge:workers:active", "w1")


@pytest.mark.usefixtures("worker")
def test_what_is_paused_is_reported_and_counts_as_not_served(routing: Command) -> None:
    id = routing("add", "email").stdout.strip()
    assert routing("coverage").returncode == 0
    routing("pause", "email")

    found = routing("coverage")

    assert (found.returncode, found.stdout.strip()) == (
        1,
        f"1  email  type email is paused  (first: {id})",
    )
    assert json.loads(routing("coverage", "--json").stdout)[0]["reasons"] == [
        {"why": "paused", "text": "type email is paused"}
    ]
    assert json.loads(routing("show", id).stdout)["why"][0]["why"] == "paused"
    assert routing("coverage", "--ignore", "limited").returncode == 1
    assert routing("coverage", "--ignore", "paused").returncode == 0


@pytest.mark.usefixtures("worker")
def test_what_is_limited_says_until_when(routing: Command, redis_url: str) -> None:
    id = routing("add", "email").stdout.strip()
    routing("limit", "email", "--per-minute", "1")
    with Redis.from_url(redis_url) as redis:
        redis.set("bridge:ratelimit:minute:email", "1", ex=600)

    found = routing("coverage")

    assert found.returncode == 1
    assert "1  email  limited until " in found.stdout
    assert "1 of 1 were started this minute" in found.stdout
    (reason,) = json.loads(routing("show", id).stdout)["why"]
    assert reason["why"] == "limited"
    assert reason["until_ms"] > 0


@pytest.mark.usefixtures("worker")
def test_the_child_of_a_dead_job_is_reported(routing: Command, redis_url: str) -> None:
    parent = routing("add", "draw").stdout.strip()
    child = routing("add", "print", "--after", parent).stdout.strip()
    with Redis.from_url(redis_url) as redis:
        redis.lrem("bridge:jobs:waiting", 1, parent)
        redis.lpush("bridge:jobs:deadletter", parent)
        redis.set(f"bridge:jobs:status:{parent}", "dead")

    found = routing("coverage")

    assert found.returncode == 1
    text = f"waits for job {parent}, which is dead"
    assert f"1  print  {text}  (first: {child})" in found.stdout
    assert json.loads(routing("show", child).stdout)["why"] == [{"why": "held", "text": text}]


def test_a_cancelled_job_says_that_it_was_cancelled(routing: Command) -> None:
    id = routing("add", "email").stdout.strip()
    assert routing("cancel", id).returncode == 0

    shown = json.loads(routing("show", id).stdout)
    assert (shown["status"], shown["why"][0]["why"]) == ("failed", "cancelled")
    again = routing("cancel", id, "nobody")

    assert (again.returncode, again.stdout) == (1, "0 stopped\n")
    assert f"job {id} cannot be stopped: cancelled at " in again.stderr
    assert "no job nobody is known in 'bridge'" in again.stderr
    other = routing("add", "email").stdout.strip()
    mixed = routing("cancel", "nobody", other)
    assert (mixed.returncode, mixed.stdout) == (1, "1 stopped\n")


def test_a_type_that_nobody_knows_is_paused_in_advance_only(routing: Command) -> None:
    refused = routing("pause", "emial")

    assert refused.returncode == 1
    assert "no worker or job of type emial is known in 'bridge'" in refused.stderr
    assert json.loads(routing("counts", "--json").stdout)["paused"] == []
    assert routing("pause", "emial", "--in-advance").stdout == "paused\n"
    assert json.loads(routing("stats", "--json").stdout)["paused"] == ["emial"]
    assert routing("resume", "emial").stdout == "resumed\n"
    refused = routing("resume", "emial")
    assert refused.returncode == 1
    assert (
        "no worker or job of type emial is known in 'bridge', and it was not paused"
        in refused.stderr
    )


def test_what_is_where_can_be_seen_and_changed(routing: Command) -> None:
    id = routing("add", "email").stdout.strip()

    assert json.loads(routing("counts", "--json").stdout)["waiting"] == 1
    assert routing("pause", "email").stdout == "paused\n"
    assert routing("limit", "email").stdout == "email has no limit\n"
    assert routing("limit", "email", "--concurrent", "2").stdout == "2 at once\n"
    assert routing("limit", "email").stdout == "2 at once\n"
    assert routing("limit", "email", "--lift").stdout == "email has no limit\n"
    shown = json.loads(routing("show", id).stdout)
    assert (shown["status"], shown["job"]["type"]) == ("waiting", "email")
    assert routing("cancel", id).stdout == "1 stopped\n"
    assert routing("coverage").stdout == "everything that waits can be served\n"
    assert "paused    email" in routing("counts").stdout
    assert routing("resume", "email").stdout == "resumed\n"
    assert routing("dead").stdout == ""
    assert routing("dead", "--json").stdout == "[]\n"
    assert routing("requeue", "--all").stdout == "0 added again\n"
    assert routing("purge", "--error", "OSError", "--yes").stdout == "0 removed\n"
    assert routing("workers").stdout == ""


def test_schedules_are_listed_until_they_are_cancelled(routing: Command, redis_url: str) -> None:
    cron = ("--cron", "30 2 * * *", "--timezone", "Europe/Vienna")
    id = routing("add", "report", *cron).stdout.strip()

    (line,) = routing("schedules").stdout.splitlines()
    assert line.endswith(f"{id}  report  30 2 * * * (Europe/Vienna)")
    (schedule,) = json.loads(routing("schedules", "--json").stdout)
    assert (schedule["id"], schedule["type"]) == (id, "report")
    routing("cancel", id)
    assert routing("schedules").stdout == ""
    with Redis.from_url(redis_url) as redis:
        redis.zadd("bridge:jobs:cron", {"endless": float("inf")})
    assert routing("schedules").stdout.startswith("never  endless")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("add", "t", "--cron", "often"), 'Invalid cron expression "often": '),
        (("add", "t", "{"), "the payload must be JSON"),
        (("add", "t", "--priority", "11"), "priority must be 1 to 10, got 11"),
        (("limit", "t", "--concurrent", "0"), "max_concurrent must be at least 1, got 0"),
        (("limit", "t", "--concurrent", "1", "--lift"), "either set limits or --lift them"),
        (("script", "steal_job"), "wanted one of claim_job"),
        (("add", "t", "--match", "any"), "match must be one of category-all, category-any"),
        (("requeue",), "say which dead jobs"),
        (("purge", "--yes"), "say which dead jobs"),
        (("requeue", "some-id", "--all"), "say which dead jobs"),
        (("work", "json:dumps"), "a single function needs --type"),
        (
            ("work", "json:dumps", "--type", "t", "--server", "a:b"),
            "must be a name without spaces, colons",
        ),
        (("work", "json:absent"), "json has no absent"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    routing: Command, args: tuple[str, ...], sentence: str
) -> None:
    refused = routing(*args)

    assert refused.returncode == 2
    assert sentence in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("add", "t", "--after", "nobody"), "depends on job nobody, which is unknown"),
        (("show", "nobody"), "no job nobody is known in 'bridge'"),
    ],
)
def test_what_is_not_there_is_one_line_and_exit_code_1(
    routing: Command, args: tuple[str, ...], sentence: str
) -> None:
    refused = routing(*args)

    assert refused.returncode == 1
    assert sentence in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_scripts_are_printed_ready_to_load(routing: Command) -> None:
    listed = [line.split()[0] for line in routing("script").stdout.splitlines()]
    assert listed[:4] == ["claim_job", "process_cron", "process_delayed", "release_lock"]
    for name in listed:
        assert "redis.call" in routing("script", name).stdout
    assert "local waiting = KEYS[1]" in routing("script", "claim_job").stdout


def test_the_namespace_of_the_settings_counts_unless_another_is_said(routing: Command) -> None:
    def waiting(*words: str) -> int:
        counted = routing(*words, "stats", "--json", WAYSTATION_ROUTING__NAMESPACE="mine")
        return json.loads(counted.stdout)["waiting"]

    routing("add", "email", WAYSTATION_ROUTING__NAMESPACE="mine")

    assert waiting() == 1
    assert waiting("--namespace", "bridge") == 0


async def test_a_worker_is_seen_works_and_ends_when_asked(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("handlers = {'cut': lambda job: job.data['n'] + 1}")
    (tmp_path / "waystation.yaml").write_text("routing: {server: w1, capabilities: [gpu]}")
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "waystation", "routing", "work", "shop:handlers", "--region", "eu"),
        cwd=tmp_path,
        env={**os.environ, "WAYSTATION_STORE__URL": redis_url},
        stderr=asyncio.subprocess.DEVNULL,
    )
    target = Target(capabilities=("gpu",), region=("eu",), mode="all")
    try:
        async with Queue(redis_url) as queue:
            id = (await queue.add("cut", {"n": 1}, target=target)).id
            async with asyncio.timeout(LIMIT_S):
                while (result := await queue.result(id)) is None:
                    await asyncio.sleep(0.05)
            assert result.data == 2
            assert [each.server for each in await queue.workers() if each.alive] == ["w1"]
            worker.send_signal(signal.SIGTERM)
            assert await worker.wait() == 0
            assert await queue.workers() == []
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()

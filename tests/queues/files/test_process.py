"""`waystation files`, as a shell runs it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

pytestmark = pytest.mark.slow

Finished = subprocess.CompletedProcess[str]
Files = Callable[..., Finished]

HANDLERS = """
import time
from waystation.queues import files

@files.handler("**/*.slow")
def slow(job: files.Job) -> None:
    open(job.path.with_suffix(".begun"), "w").close()
    time.sleep(float(job.path.read_text()))

@files.handler("**/*")
def read(job: files.Job) -> int:
    return len(job.path.read_bytes())
"""


@pytest.fixture
def home(tmp_path: Path, redis_url: str) -> Path:
    """A directory with a configuration, handlers, and a folder of files."""
    (tmp_path / "data").mkdir()
    (tmp_path / "work.py").write_text(HANDLERS)
    host, port = redis_url.removeprefix("redis://").split("/")[0].split(":")
    settings = {
        "redis": {"addr": f"{host}:{port}"},
        "worker": {"handlers": "work", "backoff": {"base": "10ms"}, "max_retries": 1},
        "producer": {"settle": "0s", "rate_limit_per_sec": 0, "exclude_globs": ["**/*.begun"]},
        "observability": {"metrics_port": 0},
    }
    (tmp_path / "files.yaml").write_text(json.dumps(settings))
    return tmp_path


@pytest.fixture
def run(home: Path) -> Files:
    def run(*args: str, given: str = "", **environ: str) -> Finished:
        return subprocess.run(
            _command(*args), cwd=home, env=_clean(home) | environ, capture_output=True,
            text=True, check=False, timeout=50, input=given,
        )  # fmt: skip

    return run


def _command(*args: str) -> list[str]:
    return [sys.executable, "-m", "waystation", "files", "--config=files.yaml", *args]


def _clean(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if "WAYSTATION" not in name}
    return kept | {"PYTHONPATH": str(home)}


@contextmanager
def running(home: Path, *args: str, **environ: str) -> Generator[subprocess.Popen[str]]:
    environment = _clean(home) | environ
    with subprocess.Popen(
        _command(*args), cwd=home, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


@pytest.fixture
def redis(redis_url: str) -> Iterator[Any]:
    with Redis.from_url(redis_url) as client:
        yield client


def test_all_scans_and_works_until_nothing_is_left(home: Path, run: Files, redis: Any) -> None:
    """T-14: --role=all. T-15: --config. A second run finds nothing new."""
    for number in range(20):
        (home / "data" / f"{number}.txt").write_text("hello")
    (home / "data" / "gone.slow").write_text("not a number")
    done = run("--role=all", "--until-done")
    assert done.returncode == 0, done.stderr
    assert "21 files found, 21 put in line, 0 known" in done.stderr
    assert redis.llen("jobqueue:completed") == 20
    assert redis.llen("jobqueue:dead_letter") == 1
    again = run("--role=all", "--until-done")
    assert "21 files found, 0 put in line, 21 known" in again.stderr
    counts = json.loads(run("--role=admin", "stats", "--json").stdout)
    assert counts["jobqueue:completed"] == 20
    assert "20" in run("stats").stdout


def test_a_producer_puts_files_in_line_and_ends(home: Path, run: Files, redis: Any) -> None:
    """T-14: --role=producer; two at once put nothing in line twice."""
    (home / "data" / "a.pdf").write_text("x")
    (home / "data" / "b.txt").write_text("x")
    assert run("--role=producer").returncode == 0
    assert run("--role=producer").returncode == 0
    assert (redis.llen("jobqueue:high_priority"), redis.llen("jobqueue:low_priority")) == (1, 1)
    peeked = run("--role=admin", "peek", "high")
    assert json.loads(peeked.stdout)["filepath"] == str(home / "data" / "a.pdf")


def test_the_first_signal_drains_the_worker(home: Path, run: Files, redis: Any) -> None:
    (home / "data" / "a.slow").write_text("1")
    with running(home, "--role=all") as process:
        until((home / "data" / "a.begun").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert redis.llen("jobqueue:completed") == 1
    assert redis.scard("jobqueue:workers") == 0


def test_the_second_signal_ends_it_at_once(home: Path, redis: Any) -> None:
    (home / "data" / "a.slow").write_text("30")
    with running(home, "--role=all") as process:
        until((home / "data" / "a.begun").exists)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 1
    assert redis.llen("jobqueue:completed") == 0


def test_a_watching_producer_follows_the_directory(home: Path, redis: Any) -> None:
    with running(home, "--role=producer", "--watch") as process:
        until(lambda: (home / "data").stat())
        time.sleep(1)
        (home / "data" / "late.txt").write_text("x")
        until(lambda: redis.llen("jobqueue:low_priority") == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_the_pages_tell_how_it_is(home: Path, redis: Any) -> None:
    port = _free_port()
    with running(home, "--role=worker", OBSERVABILITY_METRICS_PORT=str(port)):

        def page(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()
            except OSError:
                return 0, ""

        ready = {"store": True, "heartbeat": True, "breakers": True}
        # The page is there before the worker is, and says only what it knows.
        until(lambda: json.loads(page("/readyz")[1] or "{}") == ready)
        assert page("/healthz") == (200, "alive\n")
        until(lambda: 'queue_length{queue="jobqueue:low_priority"} 0.0' in page("/metrics")[1])
        assert 'circuit_breaker_state{queue="jobqueue:low_priority"} 0.0' in page("/metrics")[1]
        assert page("/elsewhere")[0] == 404


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_a_missing_file_is_mentioned_and_the_defaults_count(run: Files) -> None:
    """T-16."""
    done = run("--config=missing.yaml", "config", "--show", REDIS_PASSWORD="hunter2")
    assert done.returncode == 0
    assert "no file missing.yaml, the defaults count" in done.stderr
    assert "worker.count" in done.stdout
    assert "hunter2" not in done.stdout
    assert json.loads(run("config", "--schema").stdout)["title"] == "FilesSettings"


@pytest.mark.parametrize(
    ("args", "environ", "sentence"),
    [
        (["--role=worker"], {"WORKER_COUNT": "0"}, "worker.count (WORKER_COUNT) wants at least 1"),
        (["--role=worker"], {"REDIS_ADDR": "127.0.0.1:1", "REDIS_MAX_RETRIES": "0"},
         "no store answers at"),
        (["--role=producer"], {"PRODUCER_SCAN_DIR": "nowhere"}, "scan_dir must be a directory"),
        (["--role=worker"], {"WORKER_HANDLERS": "no.such.module"}, "worker.handlers wants"),
        (["--role=admin"], {}, "--role=admin wants one of stats, peek"),
        (["--role=worker", "stats"], {}, "stats wants --role=admin"),
        ([], {}, "--role wants producer, worker, all or admin"),
        (["--role=admin", "peek", "nowhere"], {}, "wanted one of jobqueue:high_priority"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_a_code(
    run: Files, args: list[str], environ: dict[str, str], sentence: str
) -> None:
    """T-17, T-18: exit non-zero on bad values and on anything that cannot begin."""
    done = run(*args, **environ)
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_dead_letters_are_thrown_away_only_when_asked_twice(
    home: Path, run: Files, redis: Any
) -> None:
    redis.lpush("jobqueue:dead_letter", b'{"id":"7","filepath":"/a"}')
    refused = run("--role=admin", "purge-dlq", given="n\n")
    assert refused.returncode == 1
    assert redis.llen("jobqueue:dead_letter") == 1
    assert "1 back in line" in run("--role=admin", "requeue").stdout
    redis.lpush("jobqueue:dead_letter", b'{"id":"8","filepath":"/a"}')
    assert "1 thrown away" in run("--role=admin", "purge-dlq", given="y\n").stdout
    assert redis.llen("jobqueue:dead_letter") == 0


def test_the_bench_measures_and_leaves_nothing_behind(run: Files, redis: Any) -> None:
    done = run("--role=admin", "bench", "--count=50", "--rate=500")
    assert "all done after" in done.stdout, done.stderr
    assert redis.keys("*") == []

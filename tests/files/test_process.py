"""`waystation files`, as a shell runs it."""

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.files.shell import Files, running
from tests.support.command import Command
from tests.support.patience import LIMIT_S
from tests.support.ports import free_port

pytestmark = pytest.mark.slow


def until(condition: Callable[[], Any], seconds: float = LIMIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def test_all_scans_and_works_until_nothing_is_left(
    home: Path, run: Files, command: Command, server: Any
) -> None:
    """T-14: --role=all. T-15: --config. A second run finds nothing new."""
    for number in range(20):
        (home / "data" / f"{number}.txt").write_text("hello")
    (home / "data" / "gone.slow").write_text("not a number")
    done = run("--role=all", "--until-done")
    assert done.returncode == 0, done.stderr
    assert "21 files found, 21 added, 0 known" in done.stderr
    assert server.llen("jobqueue:completed") == 20
    assert server.llen("jobqueue:dead_letter") == 1
    letter = json.loads(command("--role=admin", "peek", "dead_letter").stdout)
    assert letter["reason"] == "HANDLER_ERROR"
    assert letter["error"].startswith("ValueError: could not convert string to float")
    again = run("--role=all", "--until-done")
    assert "21 files found, 0 added, 21 known" in again.stderr
    counts = json.loads(command("--role=admin", "counts", "--json").stdout)
    assert counts["jobqueue:completed"] == 20
    assert "20" in command("stats").stdout


def test_a_producer_puts_files_in_line_and_ends(home: Path, command: Command, server: Any) -> None:
    """T-14: --role=producer; two at once add nothing twice."""
    (home / "data" / "a.pdf").write_text("x")
    (home / "data" / "b.txt").write_text("x")
    assert command("--role=producer").returncode == 0
    assert command("--role=producer").returncode == 0
    assert (server.llen("jobqueue:high_priority"), server.llen("jobqueue:low_priority")) == (1, 1)
    peeked = command("--role=admin", "peek", "high")
    assert json.loads(peeked.stdout)["filepath"] == str(home / "data" / "a.pdf")
    assert peeked.stdout.encode() == server.lindex("jobqueue:high_priority", 0) + b"\n"


def test_the_first_signal_drains_the_worker(home: Path, run: Files, server: Any) -> None:
    (home / "data" / "a.slow").write_text("1")
    with running(home, "--role=all") as process:
        until((home / "data" / "a.begun").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert server.llen("jobqueue:completed") == 1
    assert server.scard("jobqueue:workers") == 0


def test_a_worker_without_functions_is_refused_and_touches_nothing(
    home: Path, run: Files, server: Any
) -> None:
    """A default that only read the files completed whole backlogs without doing anything."""
    (home / "data" / "a.txt").write_text("x")
    without(home, "worker", "handlers")
    refused = run("--role=all", "--until-done")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == (
        "waystation: worker.handlers wants the module with your @files.handler functions, "
        "such as shop.inbox, got nothing"
    )
    assert server.keys("*") == []


def test_a_taken_port_that_nobody_asked_for_stops_no_process(home: Path, run: Files) -> None:
    """A producer and a worker with one file run on one host."""
    without(home, "observability", "metrics_port")
    with listening(9090):
        done = run("--role=producer")
    assert done.returncode == 0, done.stderr
    assert "metrics_not_served" in done.stderr
    assert "set observability.metrics_port" in done.stderr


def without(home: Path, section: str, key: str) -> None:
    """Take a setting out of the file."""
    settings = json.loads((home / "files.yaml").read_text())
    del settings[section][key]
    (home / "files.yaml").write_text(json.dumps(settings))


@contextmanager
def listening(port: int) -> Generator[int]:
    with socket.socket() as taken:
        # Somebody else's program on that port serves as well.
        with suppress(OSError):
            taken.bind(("127.0.0.1", port))
            taken.listen()
        yield taken.getsockname()[1]


def test_the_second_signal_ends_it_at_once(home: Path, server: Any) -> None:
    (home / "data" / "a.slow").write_text("30")
    with running(home, "--role=all") as process:
        until((home / "data" / "a.begun").exists)
        process.send_signal(signal.SIGTERM)
        time.sleep(1)  # two signals at once would be one
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 1
    assert server.llen("jobqueue:completed") == 0


def test_a_watching_producer_follows_the_directory(home: Path, server: Any) -> None:
    with running(home, "--role=producer", "--watch") as process:
        until(lambda: (home / "data").stat())
        time.sleep(1)
        (home / "data" / "late.txt").write_text("x")
        until(lambda: server.llen("jobqueue:low_priority") == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_the_pages_tell_how_it_is(home: Path, server: Any) -> None:
    port = free_port()
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


def test_a_missing_file_is_mentioned_and_the_defaults_count(command: Command) -> None:
    """T-16."""
    done = command("--config=missing.yaml", "config", "--show", REDIS_PASSWORD="hunter2")
    assert done.returncode == 0
    assert "there is no file missing.yaml; the defaults apply" in done.stderr
    assert "worker.count" in done.stdout
    assert "hunter2" not in done.stdout
    schema = command("--role=worker", "config", "--schema").stdout
    assert "producer" in json.loads(schema)["properties"]


@pytest.mark.parametrize(
    ("args", "environ", "sentence"),
    [
        (["--role=worker"], {"WORKER_COUNT": "0"}, "worker.count (WORKER_COUNT) wants at least 1"),
        (["--role=producer"], {"PRODUCER_SCAN_DIR": "nowhere"},
         "producer.scan_dir (PRODUCER_SCAN_DIR) wants a directory, got 'nowhere'"),
        (["--role=worker"], {"WORKER_HANDLERS": "no.such.module"},
         "worker.handlers (WORKER_HANDLERS) wants a module that can be imported"),
        (["--role=admin"], {}, "--role=admin wants one of counts, peek"),
        (["--role=worker", "counts"], {}, "counts wants --role=admin"),
        (["--role=worker", "--watch"], {}, "--watch wants --role=producer or --role=all"),
        (["--role=all", "--watch", "--until-done"], {}, "cannot go with --until-done"),
        (["--role=worker"], {"WORKER_COMPLETED_LIST": "jobqueue:events"},
         "must have a key of its own, not that of the queue's events"),
        ([], {}, "--role wants producer, worker, all or admin"),
        (["--role=admin", "peek", "nowhere"], {}, "a list must be one of high, low, completed"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_a_code(
    command: Command, args: list[str], environ: dict[str, str], sentence: str
) -> None:
    """T-17, T-18: exit non-zero on bad values and on anything that cannot begin."""
    done = command(*args, **environ)
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_store_that_is_away_has_a_code_of_its_own(run: Files) -> None:
    """T-17: exit non-zero on anything that cannot begin."""
    away = {"REDIS_ADDR": "127.0.0.1:1", "REDIS_MAX_RETRIES": "0"}
    done = run("--role=worker", "--wait=0s", **away)
    assert done.returncode == 69
    assert "no store answers at" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_dead_letters_are_thrown_away_only_when_asked_twice(
    home: Path, command: Command, server: Any
) -> None:
    server.lpush("jobqueue:dead_letter", b'{"id":"7","filepath":"/a"}')
    refused = command("--role=admin", "purge-dlq", given="n\n")
    assert refused.returncode == 1
    assert "Throw 1 dead letter away, for good?" in refused.stdout
    assert server.llen("jobqueue:dead_letter") == 1
    assert "1 added again" in command("--role=admin", "requeue").stdout
    server.lpush("jobqueue:dead_letter", b'{"id":"8","filepath":"/a"}')
    assert "1 thrown away" in command("--role=admin", "purge-dlq", given="y\n").stdout
    assert server.llen("jobqueue:dead_letter") == 0

"""`waystation files` in a directory of its own, as a shell runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.patience import LIMIT_S

Finished = subprocess.CompletedProcess[str]
Files = Callable[..., Finished]

HANDLERS = """
import time
from waystation import files

@files.handler("**/*.slow")
def slow(job: files.Job) -> None:
    open(job.path.with_suffix(".begun"), "w").close()
    time.sleep(float(job.path.read_text()))

@files.handler("**/*")
def read(job: files.Job) -> int:
    return len(job.path.read_bytes())
"""


def furnish(home: Path, redis_url: str) -> None:
    """A directory with a configuration, handlers, and a folder of files."""
    (home / "data").mkdir()
    (home / "work.py").write_text(HANDLERS)
    host, port = redis_url.removeprefix("redis://").split("/")[0].split(":")
    settings = {
        "redis": {"addr": f"{host}:{port}"},
        "worker": {"handlers": "work", "backoff": {"base": "10ms"}, "max_retries": 1},
        "producer": {"settle": "0s", "rate_limit_per_sec": 0, "exclude_globs": ["**/*.begun"]},
        "observability": {"metrics_port": 0},
    }
    (home / "files.yaml").write_text(json.dumps(settings))


def files_in(home: Path) -> Files:
    """A function that runs the command to its end."""

    def run(*args: str, given: str = "", **environ: str) -> Finished:
        return subprocess.run(
            _command(*args), cwd=home, env=_clean(home) | environ, capture_output=True,
            text=True, check=False, timeout=LIMIT_S, input=given,
        )  # fmt: skip

    return run


@contextmanager
def running(home: Path, *args: str, **environ: str) -> Generator[subprocess.Popen[str]]:
    """The command while it runs."""
    environment = _clean(home) | environ
    with subprocess.Popen(
        _command(*args), cwd=home, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _command(*args: str) -> list[str]:
    return [sys.executable, "-m", "waystation", "files", "--config=files.yaml", *args]


def _clean(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if "WAYSTATION" not in name}
    return kept | {"PYTHONPATH": str(home)}

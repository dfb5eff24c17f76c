"""An object store with the API of S3 that runs on this machine."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.patience import limit
from tests.support.ports import free_port

PLACE = "s3://lake/history"
"""A place in its only bucket."""


@contextmanager
def object_store(folder: Path) -> Generator[dict[str, str]]:
    """The variables by which its clients find it."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            _create_bucket(f"{endpoint}/lake")
            yield {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ALLOW_HTTP": "true",
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "us-east-1",
            }
        finally:
            server.kill()
            server.wait()


def _create_bucket(url: str) -> None:
    until = time.monotonic() + limit(120)
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="PUT")):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)

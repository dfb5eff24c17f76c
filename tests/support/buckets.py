"""An object store on this machine, with the API of S3."""

import contextlib
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path

from tests.support.patience import limit
from tests.support.ports import free_port

ACCESS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What every client needs in its environment."""


@contextlib.contextmanager
def object_store(folder: Path) -> Generator[str]:
    """Run one, and give its URL."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            yield endpoint
        finally:
            server.kill()
            server.wait()


def create_bucket(url: str) -> None:
    """Make a bucket, once the store answers."""
    until = time.monotonic() + limit(120)
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="PUT")):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)

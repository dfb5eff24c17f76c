"""An object store on this machine with a bucket for a history."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support import buckets

PLACE = "s3://lake/history"
"""A place in its only bucket."""
KEY, SECRET = "AKIA-SEEN-BY-NOBODY", "this-secret-is-seen-by-nobody"
"""The keys of its clients, which can be found wherever they are written to."""


@contextmanager
def object_store(folder: Path) -> Generator[dict[str, str]]:
    """The variables by which its clients find it."""
    with buckets.object_store(folder) as endpoint:
        buckets.create_bucket(f"{endpoint}/lake")
        yield {
            **buckets.ACCESS,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

"""What waits."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.errors import Malformed
from waystation.files import job as jobs


def written(path: str = "/inbox/a.pdf", size: int = 7) -> bytes:
    return jobs.write(path, size, priority="high", queue="jobqueue:high_priority", now_ns=1)[1]


def test_a_job_is_the_json_of_the_spec() -> None:
    """T-19: every field of the schema, retries from 0, RFC 3339 with nanoseconds.
    T-20, F-T8: the origin queue is in the same JSON.
    """
    fields = json.loads(written())
    assert list(fields) == [
        "id", "filepath", "filesize", "priority", "retries", "creation_time", "trace_id",
        "span_id", "origin_queue",
    ]  # fmt: skip
    assert fields["filesize"] == 7
    assert fields["priority"] == "high"
    assert fields["retries"] == 0
    assert fields["origin_queue"] == "jobqueue:high_priority"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", fields["creation_time"])


def test_a_job_of_another_producer_is_read_without_the_fields_it_lacks() -> None:
    """T-20, F-T8: the origin queue is optional, and what we do not know is no reason to refuse."""
    job = jobs.read(b'{"id": "7", "filepath": "/a", "priority": "low", "tenant": "x"}')
    assert (job.id, job.origin_queue, job.attempt) == ("7", None, 1)


def test_what_a_job_says_besides_survives_a_retry() -> None:
    raw = b'{"id":"7","filepath":"/a","tenant":"x","filesize":9007199254740993}'
    again = json.loads(jobs.with_retries(raw, 1, "q"))
    assert again == {
        "id": "7", "filepath": "/a", "tenant": "x", "filesize": 9007199254740993,
        "retries": 1, "origin_queue": "q",
    }  # fmt: skip


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'{"id":1,"filepath":"/a"}', b'{"id":"","filepath":"/a"}',
     b'{"id":"x"}', b'{"id":"x","filepath":"/a","retries":-1}', b'\xff{"id":"x"}',
     b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_job_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed, match="no job"):
        jobs.read(raw)


@given(st.binary(min_size=1, max_size=60).filter(lambda name: b"\0" not in name))
def test_every_name_a_file_can_have_comes_back_the_same(name: bytes) -> None:
    path = os.fsdecode(b"/inbox/" + name)
    assert jobs.read(written(path)).path == Path(path)


def test_a_name_that_is_no_text_is_readable_all_the_same() -> None:
    job = jobs.read(written(os.fsdecode(b"/inbox/caf\xe9\n.pdf")))
    assert job.filepath == "/inbox/caf\\xe9\n.pdf"
    assert os.fsencode(job.path) == b"/inbox/caf\xe9\n.pdf"


def test_a_file_that_changed_is_another_one() -> None:
    assert len({jobs.digest("/a", 1, 1), jobs.digest("/a", 2, 1), jobs.digest("/a", 1, 2)}) == 3
    assert jobs.digest("/a", 1, 1) == jobs.digest("/a", 1, 1)

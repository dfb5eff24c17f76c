"""What waits."""

import json
import os
import re
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.errors import Malformed
from waystation.files import job as jobs
from waystation.files.directory.globs import path_in
from waystation.files.options import WorkerOptions
from waystation.files.redis.records import abandoned, failure, reason_in


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


def test_a_member_that_is_null_counts_as_left_out() -> None:
    raw = b'{"id":"7","filepath":"/a","trace_id":null,"retries":null,"filesize":null,"x":null}'
    job = jobs.read(raw)
    assert (job.trace_id, job.retries, job.size) == ("", 0, 0)
    assert json.loads(jobs.with_retries(raw, 1, "q"))["x"] is None


@pytest.mark.parametrize("exact", ["not base64", "L2V0Yy9wYXNzd2Q=", "", "L2E=="])
def test_a_job_that_shows_one_path_and_opens_another_is_malformed(exact: str) -> None:
    raw = json.dumps({"id": "7", "filepath": "/inbox/a", "filepath_bytes": exact}).encode()
    with pytest.raises(Malformed, match="name different files"):
        jobs.read(raw)


NAMES = [*jobs.Job.__struct_encode_fields__, "tenant", "null"]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
).map(json.dumps)
ODD = st.sampled_from(["1e999", "-1e999", "0" * 400, "9" * 400, '"\\udcff"', "NaN", "null"])
MEMBERS = st.dictionaries(st.sampled_from(NAMES), ANY_JSON | ODD, max_size=4)
TAIL = st.sampled_from([b"", b',"x":"\xff\xfe"', b',"\xff":1', b',"id":"twice"'])


@given(MEMBERS, TAIL)
def test_whatever_is_read_as_a_job_can_be_shown_and_ended(
    members: dict[str, str], tail: bytes
) -> None:
    given = {"id": '"7"', "filepath": '"/inbox/a.pdf"'} | members
    body = ",".join(f"{json.dumps(name)}:{value}" for name, value in given.items())
    raw = b"{" + body.encode(errors="surrogatepass") + tail + b"}"
    try:
        job = jobs.read(raw)
    except Malformed:
        return
    assert str(job.path)
    assert job.attempt == job.retries + 1
    assert job.created_at is None or job.created_at.tzinfo
    path_in(job)
    for options in (WorkerOptions(), WorkerOptions(max_retries=0)):
        failed = failure(raw, job, 1, "q", ValueError("no"), options)
        left = abandoned(raw, job, 1, "q", options.max_retries)
        for record in (failed, left):
            assert record[:2] in {("retry", raw), ("dead", raw)}
            again = jobs.read(cast(bytes, record[5]))
            is_rewritten = reason_in(record) != "MALFORMED"
            assert again.retries == job.retries + is_rewritten


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

"""Spans on their way from the process to a collector."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.files.collector import attributes, collecting
from tests.files.shell import Files

pytestmark = pytest.mark.slow

LOW, HIGH = "jobqueue:low_priority", "jobqueue:high_priority"


def test_every_try_is_one_span_that_continues_the_producers_trace(
    home: Path, run: Files, server: Any
) -> None:
    """T-44: queue, job_id and outcome, sent over OTLP by the process that people run."""
    (home / "data" / "a.pdf").write_text("x")
    (home / "data" / "b.txt").write_text("x")
    (home / "data" / "bad.slow").write_text("no number")
    assert run("--role=producer").returncode == 0
    jobs = [json.loads(raw) for queue in (LOW, HIGH) for raw in server.lrange(queue, 0, -1)]
    with collecting() as collector:
        done = run(
            "--role=worker",
            "--until-done",
            OBSERVABILITY_TRACING_ENABLED="true",
            OBSERVABILITY_TRACING_ENDPOINT=collector.endpoint,
        )
    assert done.returncode == 0, done.stderr
    contexts = {job["id"]: (job["trace_id"], job["span_id"]) for job in jobs}
    seen = [attributes(span) for span in collector.spans]
    assert Counter((each["queue"], each["outcome"]) for each in seen) == {
        (HIGH, "completed"): 1,
        (LOW, "completed"): 1,
        (LOW, "failed"): 2,  # the second try is the last
    }
    for span, each in zip(collector.spans, seen, strict=True):
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == contexts[each["job_id"]]
    assert collector.services == {"waystation"}
    # A trace goes to another house; the name of a file stays in this one.
    assert not [span for span in collector.spans if str(home) in str(span)]


def test_a_collector_that_is_away_keeps_nobody_from_working_or_ending(
    home: Path, run: Files, server: Any
) -> None:
    (home / "data" / "a.txt").write_text("x")
    done = run(
        "--role=all",
        "--until-done",
        OBSERVABILITY_TRACING_ENABLED="true",
        OBSERVABILITY_TRACING_ENDPOINT="http://127.0.0.1:9",
    )
    assert done.returncode == 0, done.stderr
    assert server.llen("jobqueue:completed") == 1
    assert "Traceback" not in done.stderr

"""What can be seen from outside."""

import asyncio
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.files.harness import Harness
from tests.support.patience import LIMIT_S
from tests.support.programs import require_program
from tests.support.project import ROOT
from waystation.core.errors import InvalidInput
from waystation.core.telemetry import logs
from waystation.core.telemetry.metrics import Metrics
from waystation.core.telemetry.traces import Traces
from waystation.files import job as jobs
from waystation.files.directory.scan import ScanOptions
from waystation.files.handlers import Handlers
from waystation.files.options import ReaperOptions, WorkerOptions
from waystation.files.producer import Producer, ProducerOptions
from waystation.files.queue import Queue
from waystation.files.reasons import Reason
from waystation.files.upkeep import sample_lengths
from waystation.files.worker import Worker

LOW = "jobqueue:low_priority"


async def work_off(
    harness: Harness, metrics: Metrics, *, ends: int, traces: Traces | None = None
) -> None:
    """Let a worker run until that many jobs have ended."""
    handlers = Handlers()

    @handlers.handler(".pdf", "**/*.txt")
    async def read(job: jobs.Job) -> None:
        if "bad" in job.filepath:
            raise ValueError(job.filepath)

    options = WorkerOptions(
        max_retries=1,
        backoff=0,
        poll=0.05,
        no_handler_after=0,
        reaper=ReaperOptions(interval=0.05),
    )
    keys = harness.keys
    async with (
        asyncio.timeout(LIMIT_S),
        Worker(handlers, harness.store, options=options, metrics=metrics, traces=traces),
    ):
        while (
            await harness.redis.llen(keys.completed) + await harness.redis.llen(keys.dead_letter)
            < ends
        ):
            await asyncio.sleep(0.01)


async def test_everything_that_happens_is_counted_under_the_names_of_the_spec(
    harness: Harness,
) -> None:
    """T-36: the counters and their labels. T-38: the histogram, in seconds. T-37: the reasons."""
    metrics = Metrics()
    for name in ("/a.pdf", "/b.txt", "/bad.txt", "/c.unknown"):
        await harness.add(name)
    await work_off(harness, metrics, ends=4)

    def shown(name: str, **labels: str) -> Any:
        return metrics.registry.get_sample_value(name, {"queue": LOW, **labels})

    assert shown("jobs_consumed_total") == 4
    assert shown("jobs_completed_total") == 2
    assert shown("jobs_failed_total", reason="HANDLER_ERROR") == 2
    assert shown("jobs_failed_total", reason="NO_HANDLER") == 1
    assert shown("jobs_retried_total") == 1
    assert shown("jobs_dead_letter_total") == 2
    assert shown("job_processing_duration_seconds_count") == 4
    returned = metrics.registry.get_sample_value(
        "waystation_jobs_returned_total", {"product": "files", "queue": LOW}
    )
    assert returned == 1


async def test_queue_lengths_are_named_from_a_list_and_others_are_other(harness: Harness) -> None:
    """T-39: queue_length{queue}, for the queues that are allowed."""
    await harness.add()
    metrics = Metrics(allow={"queue": [LOW]})
    await sample_lengths(harness.redis, harness.keys, metrics)
    page = metrics.expose().decode()
    assert f'queue_length{{queue="{LOW}"}} 1.0' in page
    assert 'queue_length{queue="other"} 0.0' in page
    assert "high_priority" not in page


async def test_the_numbers_pass_the_checks_of_prometheus(harness: Harness) -> None:
    """T-41: `promtool check metrics`."""
    promtool = require_program("promtool", package="prometheus")
    metrics = Metrics()
    await harness.add("/a.pdf")
    await work_off(harness, metrics, ends=1)
    command = [promtool, "check", "metrics"]
    done = await asyncio.to_thread(
        subprocess.run, command, input=metrics.expose(), capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


def test_labels_stay_few_whatever_comes() -> None:
    """T-37, T-41: no label has more than fifty values."""
    metrics = Metrics()
    for number in range(200):
        metrics.jobs_failed.of(f"queue-{number}", "HANDLER_ERROR").inc()
    page = metrics.expose().decode()
    assert len({line for line in page.splitlines() if line.startswith("jobs_failed_total{")}) == 50
    assert len(Reason) < 50


async def test_logs_are_json_with_the_canonical_keys_and_no_payload(harness: Harness) -> None:
    """T-42: level, ts, msg and the allowed keys. T-43, F-T18: others are dropped and counted in
    production, an error in tests; what a file holds or is called is not logged where that is set.
    """
    stream, rejected = io.StringIO(), list[int]()
    logs.configure(
        level="DEBUG", stream=stream, redact="ours", on_rejected=lambda: rejected.append(1)
    )
    await harness.add("/secret-name-bad.txt")
    await work_off(harness, Metrics(), ends=1)
    log = logs.get_logger("test")
    log.info(
        "a file is done", job_id="7", queue=LOW, worker_id="w", request_id="r",
        namespace="jobqueue", trace_id="t", span_id="s", password="hunter2",
    )  # fmt: skip
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[-1].keys() == {
        "level", "ts", "msg", "trace_id", "span_id", "job_id", "queue", "worker_id",
        "request_id", "namespace", "logger",
    }  # fmt: skip
    assert len(rejected) == 1
    assert "secret-name" not in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    logs.configure(stream=stream, strict=True)
    with pytest.raises(InvalidInput, match="log keys must be in the table"):
        log.info("a file is done", password="hunter2")


@pytest.mark.parametrize(("redact", "is_logged"), [("off", True), ("ours", False)])
async def test_the_log_says_of_an_error_what_the_page_promises(
    harness: Harness, redact: Any, is_logged: bool
) -> None:
    page = (ROOT / "docs/how-to/work-on-a-directory.md").read_text()
    assert "with the class, text and traceback\nof the error. A text may name the file" in page
    assert "With `telemetry.redact: ours`" in page
    stream = io.StringIO()
    logs.configure(stream=stream, strict=True, redact=redact)
    await harness.add("/inbox/bad-name.txt")
    await work_off(harness, Metrics(), ends=1)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    failed = [line for line in lines if line["msg"] == "job_failed"]
    assert {line["error_class"] for line in failed} == {"ValueError"}
    assert {line["namespace"] for line in failed} == {"jobqueue"}
    assert ("bad-name" in stream.getvalue()) == is_logged


async def test_a_failure_is_logged_with_all_that_leads_to_it(harness: Harness) -> None:
    """T-42: the job, its queue, its worker, its trace and the error; T-33: and whose work the
    reaper takes back.
    """
    stream = io.StringIO()
    logs.configure(stream=stream, strict=True)
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    id, raw = jobs.write("/bad.txt", 0, priority="low", queue=LOW, now_ns=0, trace=(trace, span))
    await harness.redis.lpush(LOW, raw, b"poison")
    await work_off(harness, Metrics(), ends=2)
    harness.set(max_retries=0)
    await harness.add()
    (held,) = (await harness.source(worker="w1").settle([], claim=1)).claims
    await harness.lapse()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    seen = {line["msg"]: line for line in lines}
    assert seen["job_unreadable"]["level"] == "error"
    failed = next(line for line in lines if line["msg"] == "job_failed")
    assert seen["job_retried"]["attempt"] == 1
    assert seen["job_retried"]["level"] == "warning"
    assert failed["worker_id"] == seen["worker_started"]["worker_id"]
    expected = {
        "level": "error", "job_id": id, "queue": LOW, "attempt": 2, "product": "files",
        "trace_id": trace, "span_id": span, "error_class": "ValueError", "error": "/bad.txt",
    }  # fmt: skip
    assert {name: failed[name] for name in expected} == expected
    stalled, given_up = lines[-2:]
    for line, event, level in (
        (stalled, "job_stalled", "warning"),
        (given_up, "job_failed", "error"),
    ):
        assert (line["msg"], line["level"]) == (event, level)
        assert (line["job_id"], line["worker_id"]) == (held.id, "w1")
    assert given_up["error_code"] == "ABANDONED"


async def test_one_span_for_each_file_continues_the_producers_trace(harness: Harness) -> None:
    """T-44: queue, job_id and outcome; the ids in the job are the parent."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    for name, ids in (("/a.pdf", (trace, span)), ("/bad.txt", ("", ""))):
        _, raw = jobs.write(name, 0, priority="low", queue=LOW, now_ns=0, trace=ids)
        await harness.redis.lpush(LOW, raw)
    await work_off(harness, Metrics(), ends=2, traces=Traces(provider))
    spans = exporter.get_finished_spans()
    outcomes = [(s.attributes or {}).get("outcome") for s in spans]
    assert sorted(map(str, outcomes)) == ["completed", "failed", "failed"]
    assert [(s.attributes or {}).get("queue") for s in spans] == [LOW] * 3
    assert all((s.attributes or {}).get("job_id") for s in spans)
    (good,) = [s for s in spans if (s.attributes or {}).get("outcome") == "completed"]
    assert good.parent
    assert f"{good.parent.trace_id:032x}" == trace
    assert f"{good.parent.span_id:016x}" == span


async def test_a_file_that_is_put_in_line_begins_the_trace_that_its_work_goes_on_with(
    harness: Harness, tmp_path: Path
) -> None:
    (tmp_path / "a.pdf").touch()
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    scan = ScanOptions(scan_dir=str(tmp_path), settle=0)
    queue, options = Queue(harness.store), ProducerOptions(scan=scan)
    await Producer(queue, options, traces=Traces(provider)).scan()
    await work_off(harness, Metrics(), ends=1, traces=Traces(provider))
    put, done = exporter.get_finished_spans()
    assert (put.name, put.kind) == (f"enqueue {queue.keys.queues[0]}", SpanKind.PRODUCER)
    assert done.parent
    assert put.context
    assert done.parent.span_id == put.context.span_id
    assert done.parent.trace_id == put.context.trace_id


async def test_readiness_is_store_heartbeat_and_breakers(harness: Harness) -> None:
    handlers = Handlers()

    @handlers.handler("**/*")
    async def nothing(job: jobs.Job) -> None: ...

    async with Worker(handlers, harness.store) as worker:
        assert await worker.readiness() == {"store": True, "heartbeat": True, "breakers": True}

"""The recipes for Sentry and OpenTelemetry: the programs of the page, sent to real receivers."""

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.patience import LIMIT_S
from tests.support.processes import running
from tests.support.project import ROOT
from waystation.bullmq import Queue

PAGE = (ROOT / "docs/how-to/sentry-and-opentelemetry.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FAILING, MEASURED, PRODUCER = PROGRAMS
SENDING = """
from opentelemetry import trace
from waystation.tasks import Tasks

tasks = Tasks()

@tasks.task(queue="mail")
async def send(to: str) -> None:
    with trace.get_tracer("shop").start_as_current_span("smtp"):
        pass
"""
WORK = ("-m", "waystation", "tasks", "work", "shop:tasks")


class Receiver:
    """A server that keeps what is sent to it."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.bodies: list[bytes] = []


@contextmanager
def receiver() -> Generator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            opened.bodies.append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        opened = Receiver(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield opened
        finally:
            server.shutdown()
            thread.join()


def sentry_items(received: Receiver, kind: str) -> list[dict[str, Any]]:
    """The items of one kind in all envelopes: a line about each, and the item on the next one."""
    found: list[dict[str, Any]] = []
    for body in received.bodies:
        _, *lines = body.split(b"\n")
        for head, item in zip(lines[::2], lines[1::2], strict=False):
            if json.loads(head)["type"] == kind:
                found.append(json.loads(item))
    return found


async def test_sentry_gets_a_failure_with_its_job(tmp_path: Path, redis_url: str) -> None:
    # Without the integrations, which would import everything that is installed here.
    options = "traces_sample_rate=1.0, auto_enabling_integrations=False, "
    sampled = FAILING.replace("init(", f"init({options}")
    (tmp_path / "shop.py").write_text(f"{sampled}\n{MEASURED}")
    with receiver() as sentry:
        place = {
            "WAYSTATION_STORE__URL": redis_url,
            "SENTRY_DSN": f"http://key@{sentry.address}/1",
        }
        with running(tmp_path, *WORK, **place) as worker:
            async with Queue("mail", redis_url) as queue:
                job = await queue.add("send", {"to": "ada"}, attempts=2, backoff=0.01)
            await worker.until(lambda _: sentry_items(sentry, "event"))
            await worker.until(lambda _: len(sentry_items(sentry, "transaction")) == 2)
            assert await worker.stop() == 0

        (event,) = sentry_items(sentry, "event")
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("LookupError", "no such address: ada")
    functions = [frame["function"] for frame in error["stacktrace"]["frames"]]
    assert functions == ["measured", "send"]
    assert event["tags"] == {"queue": "mail", "job_name": "send", "job_id": job.id}
    assert event["extra"]["attempt"] == 2
    assert {each["transaction"] for each in sentry_items(sentry, "transaction")} == {"mail send"}


async def test_a_job_goes_on_with_the_trace_of_its_producer(tmp_path: Path, redis_url: str) -> None:
    (tmp_path / "shop.py").write_text(SENDING)
    with receiver() as collector:
        place = {
            "WAYSTATION_STORE__URL": redis_url,
            "WAYSTATION_TELEMETRY__TRACING__ENABLED": "true",
            "WAYSTATION_TELEMETRY__TRACING__ENDPOINT": f"http://{collector.address}",
        }
        job_id = await asyncio.to_thread(
            produced,
            tmp_path,
            WAYSTATION_STORE__URL=redis_url,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{collector.address}",
        )
        with running(tmp_path, *WORK, **place) as worker:
            async with Queue("mail", redis_url) as queue:
                await queue.wait(job_id, timeout=LIMIT_S)
            assert await worker.stop() == 0

        spans = {span.name: span for body in collector.bodies for span in spans_in(body)}
    assert set(spans) == {"checkout", "process mail", "smtp"}
    assert spans["process mail"].parent_span_id == spans["checkout"].span_id
    assert spans["smtp"].parent_span_id == spans["process mail"].span_id
    assert len({span.trace_id for span in spans.values()}) == 1


def produced(place: Path, **environ: str) -> str:
    """Run the producer; the id of its job."""
    done = subprocess.run(
        [sys.executable, "-c", PRODUCER],
        cwd=place,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def spans_in(body: bytes) -> list[Any]:
    request: Any = ExportTraceServiceRequest.FromString(body)
    return [
        span
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]

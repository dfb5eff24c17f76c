"""Running a job is a span, sent over HTTP."""

import asyncio
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from waystation.bullmq import Job, Queue, Worker

received: list[bytes] = []


class Collector(BaseHTTPRequestHandler):
    """Takes what spans are sent."""

    def do_POST(self) -> None:
        """Keep what came."""
        received.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()


async def send(job: Job) -> str:
    return "sent"


async def main() -> None:
    async with Queue("traced") as queue, Worker("traced", send):
        job = await queue.add("send", {})
        await queue.wait(job.id, timeout=60)


collector = HTTPServer(("127.0.0.1", 0), Collector)
Thread(target=collector.serve_forever, daemon=True).start()
provider = TracerProvider()
endpoint = f"http://127.0.0.1:{collector.server_port}/v1/traces"
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
trace.set_tracer_provider(provider)
asyncio.run(main())
provider.shutdown()
assert b"process traced" in b"".join(received), received

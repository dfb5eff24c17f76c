import asyncio
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.support.ports import free_port
from waystation.core.app import compose
from waystation.core.app.settings import StoreSettings, TelemetrySettings
from waystation.core.errors import InvalidSetting, StoreUnreachable, StoreUnsuitable
from waystation.core.settings.section import Secret
from waystation.core.store.embedded import Ephemeral
from waystation.routing.redis.keys import NAMESPACE
from waystation.routing.settings import RoutingSettings

SENDS_ONE_SPAN = """
import asyncio, sys
from waystation.core.app import compose
from waystation.core.app.settings import TelemetrySettings, TracingSettings

async def main():
    tracing = TracingSettings(enabled=True, endpoint=sys.argv[1])
    settings = TelemetrySettings(tracing=tracing)
    async with compose.telemetry(settings) as telemetry:
        with telemetry.traces.span_for("mail", "7"):
            pass

asyncio.run(main())
"""


def settings_for(url: str) -> StoreSettings:
    return StoreSettings(url=Secret(url))


async def test_the_store_of_the_settings_answers(redis_url: str) -> None:
    async with compose.store(settings_for(redis_url)) as store:
        assert await store.redis.execute_command("PING")


async def test_a_store_that_may_forget_is_refused(own_server: Ephemeral) -> None:
    store = await compose.reach(settings_for(own_server.url))
    async with store:
        await store.redis.execute_command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreUnsuitable, match="allkeys-lru"):
        async with compose.store(settings_for(own_server.url)):
            pass


async def test_a_closed_port_is_unreachable() -> None:
    with pytest.raises(StoreUnreachable):
        async with compose.store(settings_for(f"redis://127.0.0.1:{free_port()}")):
            pass


async def test_metrics_are_served_where_the_settings_say() -> None:
    port = free_port()
    async with compose.telemetry(TelemetrySettings(metrics_port=port)) as telemetry:
        telemetry.metrics.jobs_completed.of("mail").inc()
        page = await _get("127.0.0.1", port)
    assert b'jobs_completed_total{queue="mail"} 1.0' in page


async def test_a_port_that_is_taken_is_a_wrong_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = TelemetrySettings(metrics_port=taken.getsockname()[1])
        with pytest.raises(InvalidSetting, match=r"^telemetry\.metrics_port wants a port"):
            async with compose.telemetry(settings):
                pass


def test_spans_reach_the_collector_of_the_settings() -> None:
    paths: list[str] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        # In a process of its own, because the provider of spans can be set only once.
        subprocess.run([sys.executable, "-c", SENDS_ONE_SPAN, endpoint], check=True)
        collector.shutdown()
    assert paths == ["/v1/traces"]


def test_the_default_prefix_of_routing_is_that_of_its_queue() -> None:
    assert RoutingSettings().namespace == NAMESPACE


async def _get(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    page = await reader.read()
    writer.close()
    await writer.wait_closed()
    return page

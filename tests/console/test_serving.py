"""The console as a server and as a command."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.support.patience import limit
from tests.support.ports import free_port
from waystation.bullmq import Queue
from waystation.cli.root import run
from waystation.console.serving import running
from waystation.console.settings import ConsoleSettings
from waystation.core.errors import StoreError
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral


async def _events(client: httpx2.AsyncClient, path: str, name: str) -> Any:
    """The first event of this name in a stream."""
    async with client.stream("GET", path) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        event = ""
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: ") and event == name:
                return json.loads(line.removeprefix("data: "))
    return None


async def test_a_real_server_shows_queues_and_follows_them_live(redis_url: str) -> None:
    name = "mail/eu"
    settings = ConsoleSettings(port=free_port(), local_role="operator")
    async with (
        await connect(redis_url) as store,
        Queue(name, store) as mail,
        running(settings, store),
        httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{settings.port}", timeout=limit(60), trust_env=False
        ) as client,
    ):
        await mail.add("send", {})
        place = f"/api/v1/queues/bullmq/{quote(name, safe='')}"
        assert (await client.get(place)).json()["counts"]["waiting"] == 1
        following = asyncio.create_task(_events(client, f"{place}/live", "events"))
        sampling = asyncio.create_task(_events(client, "/api/v1/live", "sample"))
        while not following.done():
            await mail.add("send", {})
            await asyncio.sleep(0.05)
        events = await following
        assert {"added", "waiting"} & {each["event"] for each in events}
        samples = await asyncio.wait_for(sampling, limit(60))
        assert [each[:2] for each in samples] == [["bullmq", name]]
        assert (await client.get("/readyz")).json()["ready"]
        assert (await client.get("/openapi.json")).json()["openapi"].startswith("3.")


def test_the_command_refuses_other_machines_without_a_sign_in(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    with pytest.raises(SystemExit) as ended:
        run(["console", "--listen", "0.0.0.0:8090"])
    assert ended.value.code
    assert "sign_in" in capsys.readouterr().err


def test_the_command_makes_keys(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    with pytest.raises(SystemExit) as ended:
        run(["console", "key", "anna", "--role", "viewer", "--queue", "bullmq/mail"])
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("wrk_")


async def test_a_store_that_is_away_is_told_and_the_last_sample_stays(
    own_server: Ephemeral,
) -> None:
    settings = ConsoleSettings(port=free_port())
    async with (
        await connect(own_server.url) as store,
        running(settings, store) as app,
        httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{settings.port}", timeout=limit(60), trust_env=False
        ) as client,
    ):
        async with Queue("mail", store) as mail:
            await mail.add("send", {})
        await app.console.directory.look()
        await app.console.sampler.take()
        sampling = asyncio.create_task(_events(client, "/api/v1/live", "trouble"))
        own_server.kill()
        answer = await asyncio.wait_for(sampling, limit(60))
        assert "the store" in answer["detail"]
        seen = (await client.get("/api/v1/overview")).json()["queues"]
        assert [each["name"] for each in seen] == ["mail"]
        with pytest.raises(StoreError):
            await app.console.sampler.take()
        own_server.restart()
        samples = await asyncio.wait_for(_events(client, "/api/v1/live", "sample"), limit(60))
        assert isinstance(samples, list)

"""A real browser in front of a real server."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, async_playwright, expect

from tests.browser.harness import Harness
from tests.support.oidc.real import provider
from tests.support.patience import LIMIT_S, limit
from tests.support.ports import free_port
from tests.support.programs import FETCHED, require_program
from tests.waitingroom.http.harness import OPTIONS, service
from waystation.core.http.server import serving
from waystation.core.operators.oidc_settings import OidcOptions
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.running import RoomMaintenance

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
expect.set_options(timeout=LIMIT_S * 1000)


@pytest.fixture(scope="session")
async def browser() -> AsyncGenerator[Browser]:
    # Chromium without windows, where it is here: a page costs a quarter of the time.
    path = f"{FETCHED}{os.pathsep}{os.environ.get('PATH', '')}"
    shell = shutil.which("chromium-headless-shell", path=path)
    program = shell or require_program("chromium", package="chromium")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        await opened.close()


@pytest.fixture
async def harness(redis_url: str, browser: Browser) -> AsyncGenerator[Harness]:
    """A room served on a port of this machine, and a browser to visit it."""
    async with built(redis_url, browser, free_port()) as harness:
        yield harness


@pytest.fixture
async def harness_with_provider(redis_url: str, browser: Browser) -> AsyncGenerator[Harness]:
    """The same with an identity provider beside it."""
    port = free_port()
    async with (
        provider(f"http://localhost:{port}") as oidc,
        built(redis_url, browser, port, oidc) as harness,
    ):
        yield harness


@asynccontextmanager
async def built(
    redis_url: str,
    browser: Browser,
    port: int,
    oidc: OidcOptions | None = None,
    options: ServerOptions = OPTIONS,
) -> AsyncGenerator[Harness]:
    async with (
        service(redis_url, options, oidc=oidc, newcomers_per_minute=0) as opened,
        serving(opened.app, host="127.0.0.1", port=port),
        RoomMaintenance(opened.rooms, opened.context.metrics) as care,
    ):
        harness = Harness(opened, browser, f"http://localhost:{port}")
        yield harness
        await harness.close()
        await asyncio.sleep(0)
        assert care.lag_s() < limit(30)

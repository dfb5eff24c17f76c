"""A real browser in front of a real server."""

import asyncio
import socket
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, async_playwright

from tests.browser.street import Street
from tests.interfaces.api import hands
from tests.support.programs import require_program
from waystation.interfaces.api.care import Care
from waystation.interfaces.api.server import serving

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@pytest.fixture(scope="session")
async def browser() -> AsyncGenerator[Browser]:
    program = require_program("chromium", package="chromium")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        await opened.close()


@pytest.fixture
async def street(redis_url: str, browser: Browser) -> AsyncGenerator[Street]:
    """A room with its doors on a port of this machine, and a browser to come along."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with (
        hands.house(redis_url, newcomers_per_minute=0) as house,
        serving(house.app, host="127.0.0.1", port=port),
        Care(house.rooms, house.desk.metrics) as care,
    ):
        street = Street(house, browser, f"http://localhost:{port}")
        yield street
        await street.close()
        await asyncio.sleep(0)
        assert care.lag_s() < 30

"""A static page behind the room, as its how-to says, in a browser without third-party cookies."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.harness import shows
from tests.browser.test_two_hosts import browsing
from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.http.server import serving
from waystation.waitingroom.running import RoomMaintenance

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "static-sites.md"


class Site:
    """A page on one host, its room on another, and a stranger on a third."""

    def __init__(self, service: RoomService, page: str, stranger: str, room: str) -> None:
        self.service = service
        self.page = page
        self.stranger = stranger
        self.room = room


@pytest.fixture
async def site(redis_url: str) -> AsyncGenerator[Site]:
    room, port = free_port(), free_port()
    at_room = f"http://wait.localhost:{room}"
    (text,) = re.findall(r"^```html\n(.+?)^```$", HOW_TO.read_text(), re.MULTILINE | re.DOTALL)
    page = text.replace("http://localhost:8080", at_room).replace("https://shop.example", "")

    async def static(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        kind = [(b"content-type", b"text/html; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        body = b"<h1>Thanks</h1>" if scope["path"] == "/thanks" else page.encode()
        await send({"type": "http.response.body", "body": body})

    async with (
        harness.service(redis_url, newcomers_per_minute=0) as service,
        serving(service.app, host="127.0.0.1", port=room),
        serving(static, host="127.0.0.1", port=port),
        RoomMaintenance(service.rooms, service.context.metrics),
    ):
        await service.room.store.write({"return_hosts": f"shop.localhost:{port}"})
        service.rooms.forget()
        ours, stranger = f"http://shop.localhost:{port}", f"http://evil.localhost:{port}"
        yield Site(service, f"{ours}/?seat=4", f"{stranger}/?seat=4", at_room)


async def _inside(page: Page, site: Site) -> None:
    await page.wait_for_url(site.page)
    await expect(page.locator("h1")).to_be_visible()
    assert await page.inner_text("h1") == "Checkout"


async def test_a_crowd_waits_comes_back_and_leaves(site: Site, tmp_path: Path) -> None:
    await site.service.visitor().join()
    async with browsing(tmp_path / "profile") as context:
        page = await context.new_page()
        await page.goto(site.page)
        await shows(page, "waiting")
        assert page.url.startswith(f"{site.room}/wait/{QUEUE}")
        await site.service.admission.admit_now(2)
        await _inside(page, site)
        # The session is the host's: another tab is the same visitor, and so is a reload.
        other = await context.new_page()
        await other.goto(site.page)
        await _inside(other, site)
        await page.reload()
        await _inside(page, site)
        assert (await site.service.room.state()).inside == 1
        token = await page.evaluate("waitingRoom.token()")
        assert site.service.tokens.read_session(token, QUEUE)
        await page.click("button")
        await page.wait_for_url("**/thanks")
        assert (await site.service.room.state()).inside == 0


async def test_an_empty_room_is_not_noticed(site: Site, tmp_path: Path) -> None:
    await site.service.room.store.write({"admission_rate": "1000"})
    site.service.rooms.forget()
    async with browsing(tmp_path / "profile") as context:
        page = await context.new_page()
        seen: list[str] = []
        page.on("framenavigated", lambda frame: seen.append(frame.url))
        await page.goto(site.page)
        await _inside(page, site)
        assert seen == [site.page]


async def test_a_host_that_nobody_named_stays_hidden(site: Site, tmp_path: Path) -> None:
    await site.service.room.store.write({"admission_rate": "1000"})
    site.service.rooms.forget()
    async with browsing(tmp_path / "profile") as context:
        page = await context.new_page()
        refused = asyncio.Event()
        page.on("requestfailed", lambda _: refused.set())
        await page.goto(site.stranger)
        await asyncio.wait_for(refused.wait(), LIMIT_S)
        assert await page.locator("h1").is_hidden()
        assert (await site.service.room.state()).inside == 0

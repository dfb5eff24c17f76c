"""A shop and its waiting room on two host names, in a browser without third-party cookies."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from examples.shop.site import site
from tests.browser.conftest import FLAGS
from tests.browser.street import HIDES, LOOKS, shows
from tests.support.ports import free_port
from tests.support.programs import require_program
from tests.waitingroom.http import hands
from tests.waitingroom.http.hands import QUEUE, House
from waystation.core.http.server import serving
from waystation.waitingroom.middleware import GateOptions, Rule, WaitingRoomMiddleware
from waystation.waitingroom.running.maintenance import RoomMaintenance

PREFERENCES = {"profile": {"cookie_controls_mode": 1, "block_third_party_cookies": True}}


class Town:
    """A shop on one host, and its room on another."""

    def __init__(self, house: House, shop: str, room: str) -> None:
        self.house = house
        self.shop = shop
        self.room = room
        self.forgets = False
        """Whether browsers lose every cookie that the shop sets."""


@pytest.fixture
async def town(redis_url: str) -> AsyncGenerator[Town]:
    room, shop = free_port(), free_port()
    at_room, at_shop = f"http://wait.localhost:{room}", f"http://shop.localhost:{shop}"
    options = GateOptions(
        rules=[Rule(queue=QUEUE, path="/checkout*")], room_url=at_room, site_url=at_shop
    )
    guarded = WaitingRoomMiddleware(site, room=f"http://127.0.0.1:{room}", options=options)

    async def shop_app(scope: Any, receive: Any, send: Any) -> None:
        async def told(message: Any) -> None:
            if built.forgets and "headers" in message:
                kept = [each for each in message["headers"] if each[0] != b"set-cookie"]
                message = {**message, "headers": kept}
            await send(message)

        await guarded(scope, receive, told)

    async with (
        hands.house(redis_url, newcomers_per_minute=0) as house,
        serving(house.app, host="127.0.0.1", port=room),
        serving(shop_app, host="127.0.0.1", port=shop),
        RoomMaintenance(house.rooms, house.context.metrics),
    ):
        await house.room.store.write({"return_hosts": f"shop.localhost:{shop}"})
        house.rooms.forget()
        built = Town(house, at_shop, at_room)
        yield built


@asynccontextmanager
async def browsing(folder: Path, **more: Any) -> AsyncGenerator[BrowserContext]:
    """A browser that keeps no cookie for anybody but the site in the address bar."""
    (folder / "Default").mkdir(parents=True)
    (folder / "Default" / "Preferences").write_text(json.dumps(PREFERENCES))
    program = require_program("chromium", package="chromium")
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            folder, executable_path=program, args=FLAGS, **more
        )
        yield context
        await context.close()


async def _inside(page: Page, town: Town) -> None:
    await page.wait_for_url(f"{town.shop}/checkout?seat=4")
    assert await page.inner_text("h1") == "Checkout"
    names = {each.get("name", ""): each.get("domain") for each in await page.context.cookies()}
    assert names.get(f"__Host-wr_s_{QUEUE}") == "shop.localhost"


async def test_a_crowd_waits_on_one_host_and_comes_in_on_the_other(
    town: Town, tmp_path: Path
) -> None:
    for number in range(2):
        await town.house.visitor(f"10.2.0.{number}").join()
    async with browsing(tmp_path / "profile") as context:
        page = await context.new_page()
        await page.goto(f"{town.shop}/checkout?seat=4")
        await shows(page, "waiting")
        assert page.url.startswith(town.room)
        # Two tabs are one visitor.
        other = await context.new_page()
        await other.add_init_script(HIDES)
        await other.goto(f"{town.shop}/checkout?seat=4")
        await shows(other, "waiting")
        assert (await town.house.room.state()).waiting == 3
        await town.house.admission.admit_now(3)
        await _inside(page, town)
        # The second tab goes in with the same session, as soon as somebody looks at it.
        await other.evaluate(LOOKS)
        await _inside(other, town)
        assert (await town.house.room.state()).inside == 1
        # The way back leads to the waiting page, which does not send its visitor off again.
        await page.go_back()
        await shows(page, "active")
        await page.click("#enter")
        await _inside(page, town)
        await page.goto(f"{town.shop}/checkout/done")
        while (await town.house.room.state()).inside:
            await asyncio.sleep(0.05)


async def test_an_empty_room_is_not_noticed(town: Town, browser: Browser) -> None:
    await town.house.room.store.write({"admission_rate": "10"})
    town.house.rooms.forget()
    context = await browser.new_context()
    page = await context.new_page()
    seen: list[str] = []
    page.on("framenavigated", lambda frame: seen.append(frame.url))
    await page.goto(f"{town.shop}/checkout?seat=4")
    await _inside(page, town)
    assert seen == [f"{town.shop}/checkout?seat=4"]
    await page.reload()
    await _inside(page, town)
    assert (await town.house.room.state()).inside == 1
    await context.close()


async def test_without_scripts_the_way_is_the_same(town: Town, browser: Browser) -> None:
    await town.house.visitor().join()
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{town.shop}/checkout?seat=4")
    await page.click("#join button")
    await shows(page, "waiting")
    await town.house.admission.admit_now(2)
    await page.reload()
    await shows(page, "admitted")
    await page.click("#enter")
    await _inside(page, town)
    await context.close()


async def test_a_browser_that_keeps_no_cookies_for_the_shop_is_told_so_and_not_sent_in_circles(
    town: Town, browser: Browser
) -> None:
    await town.house.visitor().join()
    context = await browser.new_context()
    page = await context.new_page()
    town.forgets = True
    await page.goto(f"{town.shop}/checkout?seat=4")
    await shows(page, "waiting")
    await town.house.admission.admit_now(2)
    await page.wait_for_selector("body[data-status=active] #banner:not([hidden])")
    assert "cookies" in await page.inner_text("#banner")
    await context.close()

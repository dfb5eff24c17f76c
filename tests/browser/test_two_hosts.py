"""A shop and its waiting room on two host names, in a browser without third-party cookies."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.browser.conftest import FLAGS
from tests.browser.harness import HIDES, LOOKS, complaints, patient, picture, shows
from tests.browser.tabs import window
from tests.support.ports import free_port
from tests.support.programs import require_program
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.http.server import serving
from waystation.waitingroom.middleware import GateOptions, Rule, WaitingRoomMiddleware
from waystation.waitingroom.pages.words import languages
from waystation.waitingroom.running import RoomMaintenance

PREFERENCES = {"profile": {"cookie_controls_mode": 1, "block_third_party_cookies": True}}
NO_COOKIES = {"profile": {"default_content_setting_values": {"cookies": 2}}}


def shop() -> FastAPI:
    """A shop that knows nothing of lines."""
    pages = FastAPI(default_response_class=HTMLResponse)

    @pages.get("/checkout")
    def checkout(seat: int) -> str:  # pyright: ignore[reportUnusedFunction]
        return f"<h1>Checkout</h1><p>Seat {seat}</p>"

    @pages.get("/checkout/done")
    def done(response: Response) -> str:  # pyright: ignore[reportUnusedFunction]
        response.headers["wr-command"] = "complete"
        return "<h1>Thank you</h1>"

    return pages


class Town:
    """A shop on one host, and its room on another."""

    def __init__(self, service: RoomService, shop: str, room: str) -> None:
        self.service = service
        self.shop = shop
        self.room = room
        self.forgets = False
        """Whether browsers lose every cookie that the shop sets."""


@pytest.fixture
async def town(redis_url: str) -> AsyncGenerator[Town]:
    room, port = free_port(), free_port()
    at_room, at_shop = f"http://wait.localhost:{room}", f"http://shop.localhost:{port}"
    options = GateOptions(
        rules=[Rule(queue=QUEUE, path="/checkout*")], room_url=at_room, site_url=at_shop
    )
    guarded = shop()
    guarded.add_middleware(WaitingRoomMiddleware, room=f"http://127.0.0.1:{room}", options=options)

    async def shop_app(scope: Any, receive: Any, send: Any) -> None:
        async def send_on(message: Any) -> None:
            if built.forgets and "headers" in message:
                kept = [each for each in message["headers"] if each[0] != b"set-cookie"]
                message = {**message, "headers": kept}
            await send(message)

        if scope["type"] == "http":
            await guarded(scope, receive, send_on)

    async with (
        harness.service(redis_url, newcomers_per_minute=0) as service,
        serving(service.app, host="127.0.0.1", port=room),
        serving(shop_app, host="127.0.0.1", port=port),
        RoomMaintenance(service.rooms, service.context.metrics),
    ):
        await service.room.store.write({"return_hosts": f"shop.localhost:{port}"})
        service.rooms.forget()
        built = Town(service, at_shop, at_room)
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
        yield patient(context)
        await context.close()


async def _inside(page: Page, town: Town, *, fragment: str = "") -> None:
    await page.wait_for_url(f"{town.shop}/checkout?seat=4{fragment}")
    assert await page.inner_text("h1") == "Checkout"
    names = {each.get("name", ""): each.get("domain") for each in await page.context.cookies()}
    assert names.get(f"__Host-wr_s_{QUEUE}") == "shop.localhost"


@pytest.mark.slow
async def test_a_crowd_waits_on_one_host_and_comes_in_on_the_other(
    town: Town, tmp_path: Path
) -> None:
    for number in range(2):
        await town.service.visitor(f"10.2.0.{number}").join()
    async with browsing(tmp_path / "profile") as context:
        page = await context.new_page()
        await page.goto(f"{town.shop}/checkout?seat=4#balcony")
        await shows(page, "waiting")
        assert page.url.startswith(town.room)
        # Two tabs are one visitor.
        other = await context.new_page()
        await other.add_init_script(HIDES)
        await other.goto(f"{town.shop}/checkout?seat=4")
        await shows(other, "waiting")
        assert (await town.service.room.state()).waiting == 3
        await town.service.admission.admit_now(3)
        await _inside(page, town, fragment="#balcony")
        # The second tab goes in with the same session, as soon as somebody looks at it.
        await other.evaluate(LOOKS)
        await _inside(other, town)
        assert (await town.service.room.state()).inside == 1
        # The way back leads to the waiting page, which does not send its visitor off again.
        await page.go_back()
        await shows(page, "active")
        await page.click("#enter")
        await _inside(page, town, fragment="#balcony")
        await page.goto(f"{town.shop}/checkout/done")
        while (await town.service.room.state()).inside:
            await asyncio.sleep(0.05)


async def test_an_empty_room_is_not_noticed(town: Town, browser: Browser) -> None:
    # So fast that somebody may come in at once, however soon after this the browser is here.
    await town.service.room.store.write({"admission_rate": "1000"})
    town.service.rooms.forget()
    context = patient(await browser.new_context())
    page = await context.new_page()
    seen: list[str] = []
    page.on("framenavigated", lambda frame: seen.append(frame.url))
    await page.goto(f"{town.shop}/checkout?seat=4")
    await _inside(page, town)
    assert seen == [f"{town.shop}/checkout?seat=4"]
    await page.reload()
    await _inside(page, town)
    assert (await town.service.room.state()).inside == 1
    await context.close()


async def test_without_scripts_the_way_is_the_same(town: Town, browser: Browser) -> None:
    await town.service.visitor().join()
    context = patient(await browser.new_context(java_script_enabled=False))
    page = await context.new_page()
    await page.goto(f"{town.shop}/checkout?seat=4")
    await page.click("#join button")
    await shows(page, "waiting")
    await town.service.admission.admit_now(2)
    await page.reload()
    await shows(page, "admitted")
    await page.click("#enter")
    await _inside(page, town)
    await context.close()


async def test_a_browser_that_keeps_no_cookies_for_the_shop_is_told_so_and_not_sent_in_circles(
    town: Town, browser: Browser
) -> None:
    await town.service.visitor().join()
    context = patient(await browser.new_context())
    page = await context.new_page()
    town.forgets = True
    await page.goto(f"{town.shop}/checkout?seat=4")
    await shows(page, "waiting")
    await town.service.admission.admit_now(2)
    await page.wait_for_selector("body[data-status=active] #banner:not([hidden])")
    assert "cookies" in await page.inner_text("#banner")
    await context.close()


async def test_a_browser_without_cookies_is_told_so_where_it_would_wait(
    town: Town, tmp_path: Path
) -> None:
    await town.service.visitor().join()
    (tmp_path / "Default").mkdir()
    (tmp_path / "Default" / "Preferences").write_text(json.dumps(NO_COOKIES))
    async with window(tmp_path) as browser:
        tab = await browser.tab()
        await tab.open(f"{town.shop}/checkout?seat=4")
        await tab.until("document.body && document.body.dataset.status === 'cookies'")
        assert (await tab.evaluate("location.href")).startswith(town.room)
        text = await tab.evaluate("document.getElementById('text').textContent")
        assert text == languages()["en"]["text_cookies"]
    assert (await town.service.room.state()).waiting == 1


async def test_a_hidden_tab_is_called_and_goes_to_the_shop_when_somebody_looks(
    town: Town, browser: Browser
) -> None:
    await town.service.visitor().join()
    context = patient(await browser.new_context())
    page = await context.new_page()
    await page.add_init_script(HIDES)
    await page.goto(f"{town.shop}/checkout?seat=4")
    await shows(page, "waiting")
    await town.service.admission.admit_now(2)
    await shows(page, "admitted")
    assert (await page.title()).startswith("●")
    assert page.url.startswith(town.room)
    assert (await town.service.room.state()).inside == 0
    await page.evaluate(LOOKS)
    await _inside(page, town)
    await context.close()


async def test_somebody_with_a_japanese_telephone_comes_in(town: Town, browser: Browser) -> None:
    await town.service.visitor().join()
    context = patient(
        await browser.new_context(
            locale="ja-JP", viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True
        )
    )
    page = await context.new_page()
    await page.goto(f"{town.shop}/checkout?seat=4")
    await shows(page, "waiting")
    assert await page.inner_text("h1") == languages()["ja"]["head_waiting"]
    assert await page.get_attribute("html", "lang") == "ja"
    assert await complaints(page) == []
    await picture(page, "phone-japanese")
    await town.service.admission.admit_now(2)
    await _inside(page, town)
    await context.close()

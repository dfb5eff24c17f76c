"""What the page says to those who are refused, and what it does about it."""

import asyncio
import json
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from tests.browser.harness import Harness, complaints, picture, shows
from tests.browser.tabs import window
from tests.support.patience import LIMIT_S
from tests.waitingroom.http.harness import QUEUE
from waystation.waitingroom.pages.words import languages

WORDS = languages()["en"]
_WATCHES = """() => {
  const banner = document.getElementById('banner');
  window.complained = 0;
  new MutationObserver(() => { if (!banner.hidden) window.complained += 1; })
    .observe(banner, { attributes: true });
}"""


async def test_a_crowded_address_is_told_when_the_page_tries_again_and_gets_in(
    harness: Harness,
) -> None:
    await harness.service.room.store.write({"newcomers_per_minute": "1", "crowded_pow_bits": "0"})
    await harness.service.visitor("127.0.0.1").join()
    page = await harness.visitor()
    await page.clock.install()
    await harness.arrive(page)
    await shows(page, "crowded")
    assert await page.inner_text("#text") == WORDS["text_crowded"]
    assert await page.inner_text("#clock-word") == WORDS["again"]
    left = await page.inner_text("#clock")
    await page.clock.run_for(3000)
    await expect(page.locator("#clock")).not_to_have_text(left)
    assert await complaints(page) == []
    await picture(page, "crowded")

    await harness.service.room.store.write({"newcomers_per_minute": "0"})
    await page.clock.run_for(75_000)
    await shows(page, "waiting")
    assert await page.locator("#banner").is_hidden()


async def test_a_crowded_address_works_for_its_place(harness: Harness) -> None:
    await harness.service.room.store.write({"newcomers_per_minute": "1", "crowded_pow_bits": "8"})
    await harness.service.visitor("127.0.0.1").join()
    page = await harness.visitor()
    await harness.arrive(page)
    await shows(page, "waiting")
    assert await complaints(page) == []


async def test_a_browser_that_keeps_no_cookies_is_told_so(harness: Harness, tmp_path: Path) -> None:
    """A profile in which cookies are switched off."""
    folder = tmp_path / "Default"
    folder.mkdir()
    chosen = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    (folder / "Preferences").write_text(json.dumps(chosen))
    async with window(tmp_path) as browser:
        tab = await browser.tab()
        await tab.open(f"{harness.url}/wait/{QUEUE}")
        await tab.until("document.body && document.body.dataset.status === 'cookies'")
        text = await tab.evaluate("document.getElementById('text').textContent")
        assert text == WORDS["text_cookies"]
        assert await tab.evaluate("document.getElementById('banner').hidden")
        # The button tries again, and comes to the same.
        await tab.evaluate("document.body.dataset.status = ''")
        await tab.evaluate("document.querySelector('#join button').click()")
        await tab.until("document.body && document.body.dataset.status === 'cookies'")
    assert (await harness.service.room.state()).waiting == 0


async def test_a_room_out_of_reach_keeps_nobody_s_place_who_has_none(harness: Harness) -> None:
    page = await harness.visitor()
    await page.clock.install()
    asked = "**/enqueue"
    await page.route(asked, lambda route: route.abort())
    await harness.arrive(page)
    await expect(page.locator("#banner")).to_have_text(WORDS["text_trouble_new"])
    await page.unroute(asked)
    await page.clock.run_for(30_000)
    await shows(page, "waiting")
    assert await page.locator("#banner").is_hidden()


async def test_a_page_that_asks_too_often_waits_and_says_nothing(harness: Harness) -> None:
    await harness.crowd(80)
    page = await harness.visitor()
    await page.clock.install()
    await harness.arrive(page)
    await shows(page, "waiting")
    await page.evaluate(_WATCHES)
    refused: list[str] = []

    async def refuse(route: Route) -> None:
        refused.append(route.request.url)
        await route.fulfill(
            status=429, headers={"retry-after": "30"}, json={"code": "RATE_LIMITED", "status": 429}
        )

    await page.route("**/heartbeat", refuse)
    async with asyncio.timeout(LIMIT_S):
        while not refused:
            await page.clock.run_for(5000)
            await asyncio.sleep(0.05)
    for _ in range(4):
        await page.clock.run_for(5000)
        await asyncio.sleep(0.05)
    await expect(page.locator("#ahead")).to_have_text("80")
    assert len(refused) == 1
    assert await page.evaluate("complained") == 0


async def test_a_place_that_no_longer_counts_is_no_invitation(harness: Harness) -> None:
    page = await harness.visitor()
    await page.clock.install()
    await harness.crowd(80)
    await harness.arrive(page)
    await shows(page, "waiting")
    await harness.service.control.revoke_everything()
    await harness.service.room.state()
    await page.clock.run_for(125_000)
    await shows(page, "gone")


@pytest.mark.parametrize("status", ["full", "maintenance", "rejected"])
async def test_a_room_that_takes_nobody_for_now_is_asked_again(
    harness: Harness, status: str
) -> None:
    await harness.crowd(1)
    closed, opened = {
        "full": ({"max_queue_size": "1"}, {"max_queue_size": "0"}),
        "maintenance": ({"status": "maintenance"}, {"status": "active"}),
        "rejected": ({"queueing_method": "reject"}, {"queueing_method": "fifo"}),
    }[status]
    await harness.service.room.store.write(closed)
    page = await harness.visitor()
    await page.clock.install()
    await harness.arrive(page)
    await shows(page, status)
    await expect(page.locator("#clock-word")).to_have_text(WORDS["again"])
    await harness.service.room.store.write(opened)
    await page.clock.run_for(75_000)
    await shows(page, "waiting")


async def test_pages_that_cannot_be_shown_are_pages_all_the_same(harness: Harness) -> None:
    page = await harness.visitor(viewport={"width": 390, "height": 700})
    for path, name in (
        ("/wait/nowhere", "unknown"),
        (f"/wait/{QUEUE}?r=spoiled", "link"),
        (f"/wait/{QUEUE}?target=https://evil.example/", "target"),
    ):
        await page.goto(f"{harness.url}{path}")
        assert await page.inner_text("#text") == WORDS[f"page_{name}_text"]
        assert await complaints(page) == []
        await picture(page, f"refused-{name}")
    await page.click("a.primary")
    await shows(page, "waiting")

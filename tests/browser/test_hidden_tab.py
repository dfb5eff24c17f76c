"""A tab that nobody looks at keeps its place, and is called when it is its turn."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from tests.browser.harness import HIDES, Harness, shows
from tests.browser.tabs import Tab, window
from tests.support.patience import limit
from tests.waitingroom.http.harness import QUEUE

IDLE_S = round(limit(20))
HIDDEN_S = IDLE_S + 60
AHEAD = 80
"""More than those who follow their place live, and so learn it without asking."""

LISTENS = Path(__file__).with_name("listens.js").read_text()


async def _long_line(harness: Harness) -> None:
    """People ahead who never fall silent."""
    await harness.crowd(AHEAD)
    heartbeat, redis = harness.service.room.store.keys.heartbeat, harness.service.store.redis
    found: Any = await redis.zrange(heartbeat, 0, -1, withscores=True)
    await redis.zadd(heartbeat, {id: last + 3600 for id, last in found})


async def _arrives(tab: Tab, url: str) -> None:
    await tab.open(f"{url}/wait/{QUEUE}")
    await tab.until("document.body && document.body.dataset.status === 'waiting'")


@pytest.mark.long
async def test_a_tab_behind_others_keeps_its_place_and_hears_its_turn(
    harness: Harness, tmp_path: Path
) -> None:
    """Real tabs, with timers slowed down as browsers do it."""
    await harness.service.room.store.write({"idle_s": str(IDLE_S)})
    await _long_line(harness)
    async with window(tmp_path) as browser:
        tab = await browser.tab()
        await _arrives(tab, harness.url)
        other = await browser.tab()
        await other.show()
        await tab.until("document.hidden")

        await asyncio.sleep(HIDDEN_S)
        assert (await harness.service.room.state()).waiting == AHEAD + 1
        assert await tab.evaluate("document.hidden")
        assert await tab.evaluate("document.body.dataset.status") == "waiting"

        await harness.service.admission.admit_now(AHEAD + 1)
        await tab.until("document.title.startsWith('●')")
        assert await tab.evaluate("document.hidden")


async def _silence(page: Page, *, seconds: int, step: int) -> float:
    """Return the longest pause between two requests in `seconds` of the page's clock."""
    for _ in range(0, seconds, step):
        await page.clock.run_for(step * 1000)
        while await page.evaluate("pending"):
            await asyncio.sleep(0.005)
    instants = [*await page.evaluate("heard"), await page.evaluate("Date.now()")]
    return max(later - before for before, later in pairwise(instants)) / 1000


@pytest.mark.parametrize("hides", ["", HIDES], ids=["seen", "hidden"])
@pytest.mark.parametrize(("idle_s", "seconds"), [(300, 480), (20, 120)])
async def test_a_page_is_heard_as_often_as_the_room_wants(
    harness: Harness, hides: str, idle_s: int, seconds: int
) -> None:
    """However seldom it looks; and where there are no workers, too."""
    await harness.service.room.store.write({"idle_s": str(idle_s), "admission_rate": "0.01"})
    await _long_line(harness)
    page = await harness.visitor()
    await page.add_init_script(f"{hides}; delete window.Worker; {LISTENS}")
    await page.clock.install()
    await harness.arrive(page)
    await shows(page, "waiting")
    assert await _silence(page, seconds=seconds, step=idle_s // 10) < idle_s


async def test_a_page_without_scripts_is_heard_as_often_too(harness: Harness) -> None:
    await harness.service.room.store.write({"idle_s": "20"})
    page = await harness.visitor(java_script_enabled=False)
    await harness.arrive(page)
    await page.click("#join button")
    await shows(page, "waiting")
    refresh = page.locator("meta[http-equiv=refresh]")
    assert await refresh.get_attribute("content") == "8"

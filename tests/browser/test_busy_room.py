"""Both pages while many people come and go."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.harness import PICTURES, Harness, complaints, picture, shows
from tests.support.patience import limit
from tests.waitingroom.http.harness import QUEUE
from waystation.core.operators.roles import Role
from waystation.waitingroom.visitor import Joined, JoinRequest, Lane


async def _join(harness: Harness, first: int, count: int) -> None:
    room = harness.service.room
    people = [
        JoinRequest(key=f"k{n}", secret="s", lane=Lane.VIP if n % 12 == 0 else Lane.NORMAL)
        for n in range(first, first + count)
    ]
    await asyncio.gather(*(room.join(each) for each in people))


@asynccontextmanager
async def _crowd(harness: Harness) -> AsyncGenerator[None]:
    """People who keep coming, and come in when they are called."""
    room = harness.service.room

    async def come() -> None:
        for number in range(100_000):
            joined = await room.join(JoinRequest(key=f"late{number}", secret="s"))
            assert isinstance(joined, Joined)
            await asyncio.sleep(0.15)
            called: Any = await harness.service.store.redis.zrange(room.store.keys.admitted, 0, 1)
            for each in called:
                await room.claim(await room.get_place(each.decode()), "s")

    task = asyncio.create_task(come())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _points(at_least: int) -> re.Pattern[str]:
    return re.compile(rf"(\S+ ){{{at_least},}}")


async def test_a_long_line_is_told_honestly(harness: Harness) -> None:
    # Seats for all of them: where they are too few, nothing is known before sessions end.
    await harness.service.room.store.write({"max_active": "5000"})
    await harness.service.control.set_rate(0.5)
    await _join(harness, 0, 1240)
    await harness.service.control.show_message({"en": "The second hall opens at noon."})
    page = await harness.visitor(viewport={"width": 1000, "height": 860})
    await harness.arrive(page)
    await shows(page, "waiting")
    # As exact as it is worth being, and a range instead of a promise.
    await expect(page.locator("#ahead")).to_have_text("1,100")
    await expect(page.locator("#place-box")).to_be_hidden()
    assert re.fullmatch(r"[\d.]+ to [\d.]+ hours", await page.inner_text("#wait"))
    assert re.fullmatch(r"\d\d:\d\d", await page.inner_text("#clock"))
    # Above two hours in hours, as on the page.
    assert re.fullmatch(r"\((?:\d+ min|[\d.]+ to [\d.]+ hours)\) Shop", await page.title())
    assert await complaints(page) == []
    await picture(page, "waiting-page")
    night = await harness.visitor(color_scheme="dark", viewport={"width": 390, "height": 844})
    await harness.arrive(night)
    await shows(night, "waiting")
    await picture(night, "waiting-page-dark")


@pytest.mark.slow
async def test_an_operator_watches_people_come_and_go(harness: Harness) -> None:
    await _join(harness, 0, 240)
    await harness.service.control.set_rate(4)
    key = await harness.service.app.operators.issue("night shift", Role.ADMIN)
    async with _crowd(harness):
        page = await harness.visitor(viewport={"width": 1280, "height": 900})
        await page.goto(f"{harness.url}/operate/{QUEUE}")
        await page.fill("#key", key)
        await page.click("#login button")
        line = page.locator("#line-arrivals")
        await expect(line).to_have_attribute("points", _points(3))
        await page.fill("#rate-exact", "300")
        await page.click("#rate-form button")
        await expect(page.locator("#audit tr")).to_have_count(1)
        # A picture is worth a minute of waiting.
        await expect(line).to_have_attribute(
            "points", _points(58 if PICTURES else 6), timeout=limit(90) * 1000
        )
        assert int(await page.inner_text("#flow")) > 0
        assert not (await page.inner_text("#active")).startswith("0 ")
        assert await complaints(page) == []
        await picture(page, "operator-page")

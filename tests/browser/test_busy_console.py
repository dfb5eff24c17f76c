"""The console in front of a busy shop: what is wrong is what the eye meets first."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.console_scene import Shop, shop
from tests.browser.harness import PICTURES, complaints, picture
from tests.support.patience import limit
from waystation.bullmq import JobOptions, NewJob, Queue, Worker

_CODE = """async def pay(job):
    order = job.data["order"]
    if order % 5:
        raise ConnectionError(f"payment gateway 10.0.4.{order % 250} did not answer within 30 s")
    if order % 3:
        raise ValueError(f"the gateway wants amount_minor, which order {order} does not have")
    raise PermissionError(f"card declined for order {order}: the bank's reference is {order * 79}")
"""
_names: dict[str, Any] = {}
# Under a name of its own, so that no path of this machine is in a picture.
exec(compile(_CODE, "shop/payments.py", "exec"), _names)


async def _quick(job: Any) -> None:
    await asyncio.sleep(random.random() / 50)


async def _slow(job: Any) -> None:
    await asyncio.sleep(0.5)


@asynccontextmanager
async def _busy(built: Shop) -> AsyncGenerator[None]:
    """Payments fail, letters come faster than they go out, thumbnails are no trouble."""
    async with AsyncExitStack() as open_now:
        queues = {
            name: await open_now.enter_async_context(Queue(name, built.store))
            for name in ("payments", "letters", "thumbnails")
        }
        handlers = {"payments": _names["pay"], "letters": _slow, "thumbnails": _quick}
        for name, handle in handlers.items():
            await open_now.enter_async_context(Worker(name, handle, built.store, name=f"{name}-1"))
        await queues["letters"].add_many(
            NewJob("send", {"to": f"a{n}@b.example"}) for n in range(900)
        )

        async def come() -> None:
            once = JobOptions(attempts=1)
            for n in count(1):
                data = {"order": n, "tenant": "acme", "amount": 1299}
                name = "refund" if n % 4 == 0 else "charge"
                await queues["payments"].add(name, data, once)
                await queues["letters"].add_many(NewJob("send", {"order": n}) for _ in range(3))
                images = range(random.randint(2, 9))
                await queues["thumbnails"].add_many(NewJob("resize", {"image": i}) for i in images)
                await asyncio.sleep(0.4)

        coming = asyncio.create_task(come())
        try:
            yield
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _shown(page: Page, built: Shop, view: str, name: str, height: int = 900) -> None:
    await built.go(page, view)
    assert await complaints(page) == []
    # A picture is worth a moment of waiting: the sentence of `why` comes after the rest.
    await page.wait_for_timeout(1500 if PICTURES else 0)
    await picture(page, name, height=height)


@pytest.mark.slow
async def test_the_queue_that_fails_stands_first_and_those_that_move_last(
    redis_url: str, browser: Browser, tmp_path: Path
) -> None:
    async with shop(redis_url, browser, tmp_path) as built, _busy(built):
        page = await built.page(viewport={"width": 1440, "height": 900})
        rows = page.locator("table.queues tbody tr")
        first = rows.first
        await expect(first).to_contain_text("payments", timeout=limit(60) * 1000)
        await expect(first.locator(".chip")).to_have_text("failing")
        await expect(first).to_contain_text("attempts failed")
        await expect(rows.last).to_contain_text("thumbnails")
        # Only what is seen for some time is called a trouble.
        letters = rows.filter(has_text="letters")
        await expect(letters.locator(".chip")).to_have_text(
            "falls behind", timeout=limit(90) * 1000
        )
        if PICTURES:
            await page.wait_for_timeout(60_000)
        await picture(page, "console-overview", height=900)
        await _shown(page, built, "failures", "console-failures", 620)
        await page.get_by_role("link", name="Jobs").first.click()
        await page.get_by_role("table", name="Found jobs").get_by_role("link").first.click()
        await page.wait_for_selector('[data-view-name="job"][data-ready]')
        await picture(page, "console-job", height=900)
        night = await built.page(color_scheme="dark", viewport={"width": 1440, "height": 900})
        await _shown(night, built, "queues/bullmq/letters", "console-queue")
        await expect(night.locator(".why.late")).to_contain_text("It falls behind")
        assert built.complaints == []

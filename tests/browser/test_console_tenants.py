"""The tenants of a queue in a real browser: shares, limits, budgets, and a pause for each."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.console_scene import shop
from tests.browser.harness import complaints
from waystation.bullmq import Group, Limit, Queue


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(1440, "light", id="wide-light"),
        pytest.param(390, "dark", id="narrow-dark"),
        pytest.param(1440, "dark", id="wide-dark", marks=pytest.mark.long),
        pytest.param(390, "light", id="narrow-light", marks=pytest.mark.long),
    ],
)
async def test_tenants_can_be_read_by_everybody_and_paused(
    redis_url: str, browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    async with shop(redis_url, browser, tmp_path) as stocked, Queue("llm", stocked.store) as queue:
        await queue.groups.set("acme", weight=3, rate=Limit(90_000, 60), budget=20_000)
        await queue.groups.set("bell", concurrency=2, max_size=50)
        for group in (Group("ada", parent="acme", cost=200), Group("bell"), Group("x" * 60)):
            await queue.add("answer", group=group)
        await stocked.app.console.directory.look()
        size = {"width": width, "height": 900}
        page = await stocked.page("queues/bullmq/llm", color_scheme=scheme, viewport=size)
        tenants = page.get_by_role("table", name="Tenants").get_by_role("row")
        acme = tenants.filter(has_text="acme")
        await expect(acme).to_contain_text("weight 3 · 90,000 in 1 min")
        await expect(acme).to_contain_text("0 of 20,000")
        assert await complaints(page) == []

        await acme.get_by_role("button", name="Pause").click()
        await page.get_by_role("dialog").get_by_role("button", name="Pause").click()

        await expect(acme.get_by_role("button", name="Resume")).to_be_visible()
        assert (await queue.groups.get("acme")).settings.paused
        assert stocked.complaints == []

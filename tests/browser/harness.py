"""A room in a real browser: visitors, and what can be checked about their page."""

import os
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page

from tests.support.patience import LIMIT_S
from tests.waitingroom.http.harness import QUEUE, RoomService

PICTURES = Path(os.environ["WAYSTATION_PICTURES"]) if "WAYSTATION_PICTURES" in os.environ else None
"""Where to keep screenshots; nowhere unless asked."""


HIDES = """Object.defineProperty(document, 'hidden', { get: () => !window.looked_at });
Object.defineProperty(document, 'visibilityState',
  { get: () => window.looked_at ? 'visible' : 'hidden' });"""
"""Makes a page believe that it is hidden, until somebody looks at it."""
LOOKS = "window.looked_at = true; document.dispatchEvent(new Event('visibilitychange'))"


class Harness:
    """A room at a URL, and visitors with browsers of their own."""

    def __init__(self, service: RoomService, browser: Browser, url: str) -> None:
        self.service = service
        self.url = url
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def visitor(self, locale: str = "en-GB", *, looks: bool = True, **more: Any) -> Page:
        """Somebody with cookies of their own, who may look at another tab all the time."""
        context = patient(await self._browser.new_context(locale=locale, **more))
        self._contexts.append(context)
        page = await context.new_page()
        if not looks:
            await page.add_init_script(HIDES)
        return page

    async def crowd(self, count: int) -> None:
        """That many others who were here first."""
        for number in range(count):
            await self.service.visitor(f"10.2.{number // 250}.{number % 250}").join()

    async def arrive(self, page: Page, query: str = "") -> None:
        """Open the waiting page."""
        await page.goto(f"{self.url}/wait/{QUEUE}{query}")

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


def patient(context: BrowserContext) -> BrowserContext:
    """A browser whose pages are waited for as long as everything else in the tests."""
    context.set_default_timeout(LIMIT_S * 1000)
    return context


async def picture(page: Page, name: str) -> None:
    """Keep a screenshot, if somebody wants to look at it."""
    if PICTURES:
        await page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


async def shows(page: Page, status: str) -> None:
    """Wait until the page says so."""
    await page.wait_for_selector(f'body[data-status="{status}"]')


async def complaints(page: Page) -> list[str]:
    """What somebody who cannot see well, or uses no mouse, would complain about."""
    return await page.evaluate(_AUDIT)


_AUDIT = Path(__file__).with_name("complaints.js").read_text()

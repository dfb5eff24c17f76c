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
"""A script that makes a page believe that it is hidden, until `LOOKS` is run."""
LOOKS = "window.looked_at = true; document.dispatchEvent(new Event('visibilitychange'))"


class Harness:
    """A room at a URL, and visitors with browsers of their own."""

    def __init__(self, service: RoomService, browser: Browser, url: str) -> None:
        self.service = service
        self.url = url
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def visitor(self, locale: str = "en-GB", *, looks: bool = True, **more: Any) -> Page:
        """Return a page with cookies of its own; without `looks` it believes that it is hidden."""
        context = patient(await self._browser.new_context(locale=locale, **more))
        self._contexts.append(context)
        page = await context.new_page()
        if not looks:
            await page.add_init_script(HIDES)
        return page

    async def crowd(self, count: int) -> None:
        """Join `count` other visitors."""
        for number in range(count):
            await self.service.visitor(f"10.2.{number // 250}.{number % 250}").join()

    async def arrive(self, page: Page, query: str = "") -> None:
        """Open the waiting page."""
        await page.goto(f"{self.url}/wait/{QUEUE}{query}")

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


def patient(context: BrowserContext) -> BrowserContext:
    """Give a browser the tests' limit for waiting, and return it."""
    context.set_default_timeout(LIMIT_S * 1000)
    return context


async def picture(page: Page, name: str, *, height: int | None = None) -> None:
    """Save a screenshot where `WAYSTATION_PICTURES` is set: of the whole page, or of its top."""
    if PICTURES:
        top = page.viewport_size and {**page.viewport_size, "x": 0, "y": 0, "height": height}
        clip: Any = {"clip": top} if height else {"full_page": True}
        await page.screenshot(path=PICTURES / f"{name}.png", **clip)


async def shows(page: Page, status: str) -> None:
    """Wait until the page shows a status."""
    await page.wait_for_selector(f'body[data-status="{status}"]')


async def complaints(page: Page) -> list[str]:
    """Return what is wrong with the page for people who cannot see well or use no mouse."""
    return await page.evaluate(_AUDIT)


_AUDIT = Path(__file__).with_name("complaints.js").read_text()

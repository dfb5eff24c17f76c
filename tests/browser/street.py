"""People with browsers, and what can be checked about the page they see."""

import os
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page

from tests.interfaces.api.hands import QUEUE, House

PICTURES = Path(os.environ["WAYSTATION_PICTURES"]) if "WAYSTATION_PICTURES" in os.environ else None
"""Where to keep screenshots; nowhere unless asked."""


class Street:
    """The way to the room."""

    def __init__(self, house: House, browser: Browser, url: str) -> None:
        self.house = house
        self.url = url
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def visitor(self, **more: Any) -> Page:
        """Somebody with cookies of their own."""
        context = await self._browser.new_context(**{"locale": "en-GB", **more})
        self._contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(20_000)
        return page

    async def crowd(self, count: int) -> None:
        """That many others who were here first."""
        for number in range(count):
            await self.house.visitor(f"10.2.{number // 250}.{number % 250}").join()

    async def arrive(self, page: Page, query: str = "") -> None:
        """Open the waiting page."""
        await page.goto(f"{self.url}/wait/{QUEUE}{query}")

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


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


_AUDIT = """() => {
  const found = [];
  const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest('.unseen');
  const name = (e) => (e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent || e.title || '').trim();
  if (!document.documentElement.lang) found.push('the page names no language');
  if (!document.title.trim()) found.push('the page has no title');
  if (document.querySelectorAll('h1').length !== 1) found.push('there is not exactly one h1');
  if (!document.querySelector('main')) found.push('there is no main part');
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`the id ${id} is there twice`);
  for (const e of document.querySelectorAll('button, a[href], input, select, textarea')) {
    if (!seen(e) || e.type === 'hidden') continue;
    if (!name(e)) found.push(`a ${e.tagName} has no name`);
    const box = e.getBoundingClientRect();
    if (!['checkbox', 'range'].includes(e.type) && !e.closest('.small') && box.height < 43.5) found.push(`${name(e)} is only ${box.height}px high`);
    if (e.tabIndex < 0) found.push(`${name(e)} cannot be reached by keyboard`);
  }
  for (const e of document.querySelectorAll('[role=progressbar]')) if (seen(e) && !(e.getAttribute('aria-label') && e.getAttribute('aria-valuetext'))) found.push('the progress bar says nothing');
  for (const e of document.querySelectorAll('svg[role=img]')) if (!e.querySelector('title')?.textContent) found.push('a picture has no title');
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`the page is ${document.documentElement.scrollWidth}px wide on ${innerWidth}px`);
  const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/^rgba.*, 0\\)$|transparent/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.textContent.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TITLE', 'OPTION'].includes(e.tagName) || !seen(e)) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) found.push(`"${node.textContent.trim().slice(0, 30)}" has a contrast of ${ratio.toFixed(2)}`);
  }
  return found;
}"""

"""Operators who sign in with an identity provider, in a real browser."""

from playwright.async_api import Page, expect

from tests.browser.harness import Harness, complaints, picture
from tests.waitingroom.http.harness import QUEUE


async def _log_in(harness: Harness, name: str) -> Page:
    page = await harness.visitor()
    await page.goto(f"{harness.url}/operate/{QUEUE}")
    assert await complaints(page) == []
    await picture(page, "operator-sign-in")
    await page.click("text=Sign in with 127.0.0.1")
    await page.fill("input[name=login]", name)
    await page.fill("input[name=password]", "any")
    await page.click("button[type=submit]")
    await page.click("button[type=submit]")
    return page


async def test_an_operator_comes_back_from_the_provider_and_steers(
    harness_with_provider: Harness,
) -> None:
    page = await _log_in(harness_with_provider, "bob")
    await page.wait_for_selector("#board:not([hidden])")
    assert page.url == f"{harness_with_provider.url}/operate/{QUEUE}"
    await expect(page.locator("#name")).to_have_text("oidc:bob, operator")
    await page.click("#pause")
    await page.wait_for_selector("text=Paused: everybody keeps their place.")
    await page.click("#sign-out")
    await page.wait_for_selector("#login:not([hidden])")


async def test_whoever_may_not_operate_is_told_so_on_a_page(harness_with_provider: Harness) -> None:
    page = await _log_in(harness_with_provider, "eve")
    await page.wait_for_selector("text=no group of yours may operate")
    assert await complaints(page) == []
    await page.click("text=Back to the operator's page")
    await page.wait_for_selector("#login:not([hidden])")
    assert await page.is_hidden("#board")

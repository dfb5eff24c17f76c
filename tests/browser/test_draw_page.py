"""The page on which anybody draws the lots again, in a real browser."""

import pytest
from playwright.async_api import expect

from tests.browser.harness import Harness, complaints, picture, shows
from tests.waitingroom.http.harness import QUEUE
from waystation.waitingroom.operating.lottery import Lottery, commit
from waystation.waitingroom.pages.words import languages

SECRET = "cd" * 32


async def _gathered(harness: Harness, *, witness: str = "") -> Lottery:
    state = await harness.service.room.state()
    await harness.service.control.schedule(state.now_ms + 3_000_000)
    lottery = Lottery(harness.service.room)
    await lottery.announce(witness=witness)
    await harness.crowd(20)
    return lottery


@pytest.mark.parametrize("witness", ["", commit(SECRET)])
async def test_a_visitor_draws_again_and_finds_the_own_place(
    harness: Harness, witness: str
) -> None:
    lottery = await _gathered(harness, witness=witness)
    page = await harness.visitor(looks=False)
    await harness.arrive(page)
    await shows(page, "prequeued")
    await page.click("text=How the draw can be checked")
    await expect(page.locator("#none")).to_have_text("The draw has not been held yet.")
    assert await page.is_hidden("#again")
    assert await complaints(page) == []
    await lottery.draw(beacon="noon")
    if witness:
        await lottery.reveal(SECRET)
        await lottery.draw(beacon="noon")
    await harness.service.room.state()
    await page.reload()
    await page.click("#again")
    said = "Drawn again, the order is the same. People drawn: 21"
    await expect(page.locator("#result")).to_have_text(said)
    await expect(page.locator("#own")).to_contain_text("Your place in the draw:")
    names = ("commit", *(("witness",) if witness else ()), "seed", "beacon", "n", "digest")
    said_so = [languages()["en"][f"page_draw_{name}"] for name in names]
    assert await page.locator(".facts dt").all_inner_texts() == said_so
    assert await complaints(page) == []
    await picture(page, "draw")


async def test_an_order_that_was_changed_is_found_out(harness: Harness) -> None:
    lottery = await _gathered(harness)
    await lottery.draw(beacon="noon")
    await harness.service.room.state()
    drawn = harness.service.room.store.keys.drawn
    first, second = await lottery.drawn(0, 2)
    redis = harness.service.store.redis
    await redis.lset(drawn, 0, second)  # pyright: ignore
    await redis.lset(drawn, 1, first)  # pyright: ignore
    page = await harness.visitor("ar")
    await page.goto(f"{harness.url}/wait/{QUEUE}/draw")
    await page.click("#again")
    await expect(page.locator("#result")).to_have_text(languages()["ar"]["page_draw_wrong"])
    assert await page.is_hidden("#own")
    assert await complaints(page) == []
    await picture(page, "draw-ar")


async def test_where_no_lots_are_drawn_there_is_no_such_page(harness: Harness) -> None:
    page = await harness.visitor()
    answer = await page.goto(f"{harness.url}/wait/{QUEUE}/draw")
    assert answer is not None
    assert answer.status == 404

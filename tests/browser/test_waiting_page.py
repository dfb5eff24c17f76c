"""The waiting page in a real browser."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.harness import LOOKS, Harness, complaints, picture, shows
from tests.waitingroom.http.harness import QUEUE
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.pages import words
from waystation.waitingroom.pages.words import languages


async def test_a_visitor_joins_by_opening_the_page_and_comes_in_when_called(
    harness: Harness,
) -> None:
    await harness.crowd(3)
    page = await harness.visitor(looks=False)
    await harness.arrive(page, "?target=/checkout")
    await shows(page, "waiting")
    assert await page.inner_text("#ahead") == "3"
    await picture(page, "waiting-light")

    await harness.service.admission.admit_now(3)
    await expect(page.locator("#ahead")).to_have_text("0")
    await harness.service.admission.admit_now(1)
    await shows(page, "admitted")
    assert await page.evaluate("document.activeElement.id") == "enter"
    assert await page.inner_text("#turn") == "It is your turn"
    await picture(page, "turn")

    await page.click("#enter")
    await page.wait_for_url(f"{harness.url}/checkout")
    names = {each.get("name") for each in await page.context.cookies()}
    assert f"__Host-wr_s_{QUEUE}" in names


async def test_whoever_looks_goes_in_without_a_press(harness: Harness) -> None:
    await harness.crowd(1)
    page = await harness.visitor()
    await harness.arrive(page, "?target=/checkout")
    await shows(page, "waiting")
    await harness.service.admission.admit_now(2)
    await page.wait_for_url(f"{harness.url}/checkout")
    assert (await harness.service.room.state()).inside == 1
    # Going back is possible: the page does not send them off again.
    await page.go_back()
    await shows(page, "active")
    await page.wait_for_timeout(500)
    assert "/wait/" in page.url


async def test_a_hidden_tab_is_called_and_goes_in_when_somebody_looks(harness: Harness) -> None:
    await harness.crowd(1)
    page = await harness.visitor(looks=False)
    await harness.arrive(page, "?target=/checkout")
    await shows(page, "waiting")
    await harness.service.admission.admit_now(2)
    await shows(page, "admitted")
    assert (await page.title()).startswith("●")
    assert (await harness.service.room.state()).inside == 0
    await page.evaluate(LOOKS)
    await page.wait_for_url(f"{harness.url}/checkout")
    assert (await harness.service.room.state()).inside == 1


async def test_reloading_and_coming_back_keeps_the_place(harness: Harness) -> None:
    await harness.crowd(2)
    page = await harness.visitor()
    await harness.arrive(page)
    await shows(page, "waiting")
    ticket = await page.inner_text("#ticket")
    await page.reload()
    await shows(page, "waiting")
    assert await page.inner_text("#ticket") == ticket
    another_tab = await page.context.new_page()
    await harness.arrive(another_tab)
    await shows(another_tab, "waiting")
    assert await another_tab.inner_text("#ticket") == ticket
    assert (await harness.service.room.state()).waiting == 3


async def test_the_whole_way_works_without_javascript(harness: Harness) -> None:
    await harness.crowd(1)
    page = await harness.visitor(java_script_enabled=False)
    await harness.arrive(page, "?target=/checkout")
    await shows(page, "new")
    await page.click("text=Join the line >> nth=-1")
    await shows(page, "waiting")
    assert await page.inner_text("#ahead") == "1"
    assert await page.locator("meta[http-equiv=refresh]").count() == 1
    await picture(page, "no-script")
    await harness.service.admission.admit_now(2)
    await page.reload()
    await shows(page, "admitted")
    await page.click("#enter")
    await page.wait_for_url(f"{harness.url}/checkout")


async def test_an_operator_pauses_and_speaks_and_everybody_sees_it(harness: Harness) -> None:
    page = await harness.visitor()
    await harness.crowd(1)
    await harness.arrive(page)
    await shows(page, "waiting")
    await harness.service.control.pause()
    await harness.service.control.show_message({"en": "<b>Back</b> at noon"}, level="warning")
    await page.wait_for_selector("#banner:not([hidden])")
    await page.wait_for_selector("#notice.warning:not([hidden])")
    assert await page.inner_text("#notice") == "<b>Back</b> at noon"
    assert "keep your place" in await page.inner_text("#banner")
    await picture(page, "paused")


async def test_before_the_opening_the_time_is_counted_down(harness: Harness) -> None:
    state = await harness.service.room.state()
    await harness.service.control.schedule(state.now_ms + 3_000_000)
    page = await harness.visitor()
    await harness.arrive(page)
    await shows(page, "prequeued")
    assert await page.inner_text("#clock-word") == "opens in"
    await expect(page.locator("#clock")).to_have_text(re.compile(r"4\d:\d\d"))
    assert await complaints(page) == []
    await picture(page, "before")


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("lots", [True, False])
async def test_the_same_chance_is_promised_only_where_lots_are_drawn(
    harness: Harness, lots: bool, scripts: bool
) -> None:
    state = await harness.service.room.state()
    if lots:
        await Lottery(harness.service.room).announce()
    await harness.service.control.schedule(state.now_ms + 3_000_000)
    page = await harness.visitor(java_script_enabled=scripts)
    await harness.arrive(page)
    if not scripts:
        await page.click("#join button")
    await shows(page, "prequeued")
    said = "has the same chance" if lots else "came first are called first"
    await expect(page.locator("#text")).to_contain_text(said)


@pytest.mark.slow
async def test_a_turn_that_is_over_is_said_with_the_time_to_take_it_back(
    harness: Harness,
) -> None:
    await harness.crowd(2)
    # A long wait, so that the page has planned to look again in a minute.
    await harness.service.control.set_rate(0.001)
    await harness.service.room.store.write({"claim_window_s": "5"})
    page = await harness.visitor(looks=False)
    await harness.arrive(page)
    await shows(page, "waiting")
    await harness.service.admission.admit_now(3)
    await shows(page, "admitted")
    await shows(page, "missed")
    await expect(page.locator("#clock-word")).to_have_text("time left to take it back")
    await expect(page.locator("#clock")).to_contain_text("9:")
    assert await page.title() == "● You missed your turn"
    await picture(page, "missed")


@pytest.mark.parametrize("scripts", [True, False])
async def test_leaving_asks_first_with_and_without_scripts(harness: Harness, scripts: bool) -> None:
    page = await harness.visitor(java_script_enabled=scripts)
    await harness.arrive(page)
    if not scripts:
        await page.click("#join button")
    await shows(page, "waiting")
    # A press on the wrong button costs nobody a place.
    assert not await page.is_visible("#leave button")
    await page.click("#leave summary")
    assert await page.inner_text("#leave p") == languages()["en"]["leave_ask"]
    assert (await harness.service.room.state()).waiting == 1
    assert await complaints(page) == []
    await page.click("#leave button")
    await shows(page, "left")
    assert (await harness.service.room.state()).waiting == 0


@pytest.mark.parametrize("scripts", [True, False])
async def test_whoever_left_by_mistake_is_back_at_the_old_place(
    harness: Harness, scripts: bool
) -> None:
    await harness.crowd(2)
    page = await harness.visitor(java_script_enabled=scripts)
    await harness.arrive(page, "?target=/checkout")
    if not scripts:
        await page.click("#join button")
    await shows(page, "waiting")
    await page.click("#leave summary")
    await page.click("#leave button")
    await shows(page, "left")
    assert await page.inner_text("#rejoin") == "I left by mistake"
    assert await complaints(page) == []
    await picture(page, "left")
    await harness.service.visitor("10.3.1.1").join()
    await page.click("#rejoin button")
    await shows(page, "waiting")
    assert await page.inner_text("#ahead") == "2"
    assert (await harness.service.room.state()).waiting == 4
    # Where they wanted to go is known as before.
    await harness.service.admission.admit_now(3)
    if not scripts:
        await page.reload()
        await shows(page, "admitted")
        await page.click("#enter")
    await page.wait_for_url(f"{harness.url}/checkout")


async def test_a_place_that_is_kept_no_longer_is_not_offered(harness: Harness) -> None:
    await harness.service.room.store.write({"rejoin_s": "0"})
    page = await harness.visitor()
    await harness.arrive(page)
    await shows(page, "waiting")
    await page.click("#leave summary")
    await page.click("#leave button")
    await shows(page, "gone")
    assert not await page.is_visible("#rejoin")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nobody_has_to_complain(harness: Harness, scheme: str) -> None:
    await harness.crowd(2)
    page = await harness.visitor(
        looks=False, color_scheme=scheme, viewport={"width": 320, "height": 640}
    )
    await harness.arrive(page)
    await shows(page, "waiting")
    assert await complaints(page) == []
    await picture(page, f"phone-{scheme}")
    await harness.service.admission.admit_now(3)
    await shows(page, "admitted")
    assert await complaints(page) == []


# From right to left, with long words, without spaces; the texts of the others are like theirs.
UNLIKE = {"ar", "de", "ja"}


@pytest.mark.parametrize(
    "lang",
    [
        pytest.param(each, marks=[] if each in UNLIKE else pytest.mark.long)
        for each in sorted(languages())
    ],
)
async def test_the_page_speaks_every_language(harness: Harness, lang: str) -> None:
    await harness.crowd(1)
    page = await harness.visitor(locale=lang)
    await harness.arrive(page)
    await shows(page, "waiting")
    assert await page.inner_text("h1") == languages()[lang]["head_waiting"]
    assert await page.get_attribute("html", "dir") == languages()[lang]["_dir"]
    assert await complaints(page) == []
    await picture(page, f"language-{lang}")


async def test_the_server_s_plural_rules_are_the_browser_s(harness: Harness) -> None:
    page = await harness.visitor()
    numbers = [*range(0, 201), *(half + 0.5 for half in range(20))]
    for lang in languages():
        said = await page.evaluate(
            "([lang, numbers]) => numbers.map((n) => new Intl.PluralRules(lang).select(n))",
            [lang, numbers],
        )
        assert said == [words.category(lang, number) for number in numbers], lang


async def test_a_language_is_chosen_on_the_page_and_keeps_where_to_go(harness: Harness) -> None:
    page = await harness.visitor()
    await harness.arrive(page, "?target=/checkout")
    await shows(page, "waiting")
    await page.click("summary >> nth=-1")
    assert await complaints(page) == []
    await page.click("nav a[lang=cs]")
    await shows(page, "waiting")
    assert await page.inner_text("h1") == languages()["cs"]["head_waiting"]
    await harness.service.admission.admit_now(1)
    await page.wait_for_url(f"{harness.url}/checkout")


async def test_nothing_is_fetched_from_elsewhere_and_the_page_is_small(harness: Harness) -> None:
    import gzip

    page = await harness.visitor()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    await harness.arrive(page)
    await shows(page, "waiting")
    assert all(url.startswith((harness.url, f"blob:{harness.url}")) for url in asked)
    assert [each for each in errors if "favicon" not in each] == []
    whole = (await harness.service.visitor().get(f"/wait/{QUEUE}")).content
    assert len(gzip.compress(whole)) < 20_000

"""What somebody in line reads when the room changes, with scripts and without."""

import re
from datetime import timedelta

import pytest
from playwright.async_api import expect

from tests.browser.harness import Harness, complaints, picture, shows
from tests.support.size import size
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.operating.lottery import Lottery

HOUR_MS = 3_600_000


async def _end(control: Control, word: str, now_ms: int) -> None:
    match word:
        case "closed":
            await control.close()
        case "sold_out":
            await control.sell_out(
                text={"en": "All 400 are gone."}, link="https://shop.example/may"
            )
        case "paused":
            await control.pause()
        case _:
            await control.schedule(now_ms + 2 * HOUR_MS)


SAYS = {
    "closed": ("#headline", "It is over"),
    "sold_out": ("#text", "All 400 are gone."),
    "paused": ("#banner", "Nobody is being let in right now. You keep your place."),
    "later": ("#banner", "Nobody is let in before the opening. You keep your place."),
}


@pytest.mark.parametrize("word", list(SAYS))
async def test_those_in_line_are_recorded_at_once(harness: Harness, word: str) -> None:
    await harness.crowd(3)
    page, plain = await harness.visitor(), await harness.visitor(java_script_enabled=False)
    await harness.arrive(page)
    await harness.arrive(plain, "?plain=1")
    await plain.click("#join button")
    for each in (page, plain):
        await shows(each, "waiting")
    await _end(harness.service.control, word, (await harness.service.room.state()).now_ms)
    where, says = SAYS[word]
    await expect(page.locator(where)).to_have_text(says)
    await plain.reload()
    await expect(plain.locator(where)).to_have_text(says)
    if word == "later":
        await expect(page.locator("#clock-word")).to_have_text("opens in")
    for each, name in ((page, "scripts"), (plain, "plain")):
        over = word in ("closed", "sold_out")
        assert await each.locator("#why").is_visible() is not over
        assert await each.locator("#leave").is_visible() is not over
        if word == "sold_out":
            link = each.locator("#onward a")
            assert await link.get_attribute("href") == "https://shop.example/may"
        assert await complaints(each) == []
        await picture(each, f"{word}-{name}")


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_is_wrong_moves_no_countdown(harness: Harness, hours: int) -> None:
    """The opening, the turn and the turn that was missed are counted by the server's clock."""
    page = await harness.visitor(looks=False)
    await page.add_init_script(
        f"const real = Date.now; Date.now = () => real() + {hours * HOUR_MS};"
        "const Of = Date; window.Date = class extends Of {"
        "constructor(...given) { given.length ? super(...given) : super(Of.now()); } };"
    )
    service = harness.service
    await service.room.store.write({"claim_window_s": "600"})
    now_ms = (await service.room.state()).now_ms
    await service.control.schedule(now_ms + round(timedelta(minutes=10).total_seconds() * 1000))
    await harness.arrive(page)
    await shows(page, "prequeued")
    await expect(page.locator("#clock")).to_contain_text("9:")
    await picture(page, f"clock-{hours}")


async def test_a_number_that_rose_is_shown_with_its_reason(harness: Harness) -> None:
    await harness.crowd(4)
    others = [harness.service.visitor(f"10.3.0.{each}") for each in range(2)]
    for each in others:
        await each.join()
    page = await harness.visitor()
    await harness.arrive(page)
    await expect(page.locator("#ahead")).to_have_text("6")
    for each in others:
        await each.ask("DELETE", "position", {})
    await expect(page.locator("#ahead")).to_have_text("4")
    for each in others:
        assert (await each.ask("POST", "rejoin", {})).status_code == 200
    await expect(page.locator("#ahead")).to_have_text("6")
    await expect(page.locator("#banner")).to_contain_text("somebody who had left came back")


async def test_who_presses_is_called_with_a_sound(harness: Harness) -> None:
    page = await harness.visitor()
    states = list[str]()

    def sounded(state: str) -> None:
        states.append(state)

    await page.expose_function("heard", sounded)
    await page.add_init_script(
        "const start = OscillatorNode.prototype.start;"
        "OscillatorNode.prototype.start = function (at)"
        " { window.heard(this.context.state); start.call(this, at); };"
    )
    await harness.arrive(page)
    await shows(page, "waiting")
    await page.click("#notify")
    await expect(page.locator("#notify")).to_be_hidden()
    assert states == ["running", "running"]


@pytest.mark.full
async def test_the_page_works_off_a_hard_challenge(harness: Harness) -> None:
    await harness.service.room.store.write({"pow_bits": size("14", full="20")})
    page = await harness.visitor()
    await harness.arrive(page)
    await shows(page, "waiting")


async def test_who_has_finished_reads_that(harness: Harness) -> None:
    page = await harness.visitor(looks=False)
    await harness.arrive(page)
    await shows(page, "waiting")
    await harness.service.control.set_rate(10)
    await shows(page, "admitted")
    ticket = await page.evaluate("fetch('/wait/shop/facts').then((a) => a.json())")
    place = await harness.service.room.get_place(ticket["place"]["position_id"])
    claim = "{method: 'POST', headers: {'content-type': 'application/json'}, body: '{}'}"
    await page.evaluate(f"fetch('/api/v1/queues/shop/claim', {claim})")
    await harness.service.room.complete(place)
    await page.reload()
    await shows(page, "done")
    await expect(page.locator("#headline")).to_have_text("You are done here")


async def test_a_long_wait_is_in_hours_in_the_title_too(harness: Harness) -> None:
    await harness.crowd(8)
    await harness.service.control.set_rate(0.0005)
    page = await harness.visitor()
    await harness.arrive(page)
    await expect(page).to_have_title(re.compile(r"^\(.* hours\) Shop$"))


@pytest.mark.slow
async def test_nothing_goes_more_slowly_before_the_opening(harness: Harness) -> None:
    """Others who join do not put off whoever waits for it."""
    service = harness.service
    await service.room.store.write({"admission_rate": "0.2", "max_active": "1000"})
    await service.control.schedule((await service.room.state()).now_ms + 40_000)
    await Lottery(service.room).announce()
    page = await harness.visitor(looks=False)
    await harness.arrive(page)
    await shows(page, "prequeued")
    await harness.crowd(40)
    async with page.expect_response(re.compile("/(status|heartbeat)$")) as looked:
        pass
    seen = await (await looked.value).json()
    assert seen["estimated_wait"]["p50"] > 100
    await expect(page.locator("#banner")).to_be_hidden()

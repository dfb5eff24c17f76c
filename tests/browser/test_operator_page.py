"""The operator's page in a real browser."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.harness import Harness, complaints, picture, shows
from tests.waitingroom.http.harness import QUEUE
from waystation.core.operators.roles import Role
from waystation.waitingroom.options import RoomOptions


async def _opened(harness: Harness, role: Role = Role.ADMIN, *, more: bool = True) -> Page:
    key = await harness.service.app.operators.issue("operator", role)
    page = await harness.visitor()
    await page.goto(f"{harness.url}/operate/{QUEUE}")
    await page.fill("#key", key)
    await page.click("#login button")
    await page.wait_for_selector("#board:not([hidden])")
    if more:
        await page.click("#more > summary")
    return page


@pytest.mark.parametrize("width", [390, 1440])
async def test_the_five_controls_of_a_sale_come_first(harness: Harness, width: int) -> None:
    """Rate, seats, pause, message and end; the rest is a press away, and nothing is cut off."""
    page = await _opened(harness, more=False)
    await page.set_viewport_size({"width": width, "height": 844})
    for control in ("#pause", "#rate-exact", "#seats", "#message", "#close-name"):
        await expect(page.locator(control)).to_be_visible()
    for other in ("#drain", "#alarm-form", "#hook-form", "#looks", "#hours"):
        await expect(page.locator(other)).to_be_hidden()
    pause = await page.locator("#pause").bounding_box()
    assert pause is not None
    assert pause["y"] + pause["height"] <= 844
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await page.title() == "Shop"
    assert await complaints(page) == []
    await picture(page, f"operator-{width}")


async def test_what_others_did_is_on_the_page_and_a_wait_nobody_knows_is_no_time(
    harness: Harness,
) -> None:
    await harness.crowd(2)
    page = await _opened(harness, more=False)
    await harness.service.control.show_message({"en": "Back at noon"})
    await expect(page.locator("#message-now")).to_have_text("Visitors read: Back at noon")
    for unknown in ("#last-wait", "#empty"):
        await expect(page.locator(unknown)).to_have_text("\N{EN DASH}")
    await page.fill("#rate-exact", "")
    await page.click("#rate-form button")
    await expect(page.locator("#rate-exact:invalid")).to_have_count(1)
    assert (await harness.service.room.state()).version == 2


@pytest.mark.slow
async def test_an_operator_sees_the_room_and_steers_it(harness: Harness) -> None:
    await harness.crowd(5)
    visitor = await harness.visitor(looks=False)
    await harness.arrive(visitor)
    await shows(visitor, "waiting")

    page = await _opened(harness)
    await expect(page.locator("#waiting")).to_have_text("6")
    await page.click("#pause")
    await page.wait_for_selector("text=Paused: everybody keeps their place.")
    await expect(page.locator("#state")).to_have_text("paused")
    await page.fill("#message", "Back at noon")
    await page.click("#message-form button:not([type])")
    await visitor.wait_for_selector("#notice:not([hidden])")
    assert await visitor.inner_text("#notice") == "Back at noon"
    await visitor.wait_for_selector("#banner:not([hidden])")

    # In one step: the numbers that come each second set a slider back that nobody has moved.
    await page.fill("#rate", "600")
    await page.click("#rate-form button")
    await page.wait_for_selector("text=The rate is set.")
    await page.click("#resume")
    await shows(visitor, "admitted")
    assert await complaints(page) == []
    await picture(page, "operator")

    entries = (await harness.service.app.operators.audit(10)).entries
    actions = [each["action"] for each in entries]
    assert actions == ["resume", "rate", "message", "pause", "sign-in"]


async def test_looks_are_tried_on_before_anybody_else_sees_them(
    harness: Harness, tmp_path: Path
) -> None:
    page = await _opened(harness)
    frame = page.frame_locator("#frame")
    await expect(frame.locator("h1")).to_have_text("Join the line")
    await page.fill("#own-text", "Two tickets each.")
    await page.fill("#font", "monospace")
    await expect(frame.locator(".own")).to_have_text("Two tickets each.")
    await expect(frame.locator("body")).to_have_css("font-family", re.compile("ui-monospace"))
    await page.fill("#accent", "#ffee00")
    await expect(page.locator("#looks-trouble")).to_contain_text("would do")
    await page.fill("#accent", "#7a1f5c")
    await expect(page.locator("#looks-trouble")).to_be_empty()
    behind = tmp_path / "behind.png"
    behind.write_bytes(await page.locator("#chart").screenshot())
    await page.set_input_files("#background", behind)
    await expect(frame.locator("body")).to_have_css("background-image", re.compile("data:image"))
    assert await complaints(page) == []
    await picture(page, "operator-looks")
    visitor = await harness.visitor()
    await harness.arrive(visitor)
    await shows(visitor, "waiting")
    assert await visitor.locator(".own").count() == 0

    await page.click("#looks-form button.primary")
    await page.wait_for_selector("text=The waiting page looks like this now.")
    # Browsers may keep the page for ten seconds, so somebody else looks.
    other = await harness.visitor()
    await harness.arrive(other)
    await shows(other, "waiting")
    assert await other.inner_text(".own") == "Two tickets each."
    assert await complaints(other) == []
    await picture(other, "waiting-with-looks")
    await page.click("#looks-clear")
    await page.wait_for_selector("text=The waiting page looks as it comes.")
    await expect(frame.locator(".own")).to_have_count(0)


async def test_all_rooms_are_on_one_page(harness: Harness) -> None:
    await harness.crowd(2)
    await harness.service.rooms.of("{gala}").open(RoomOptions(admission_rate=5, max_active=40))
    await harness.service.control.pause()
    key = await harness.service.app.operators.issue("operator", Role.VIEWER)
    page = await harness.visitor()
    await page.goto(f"{harness.url}/operate")
    await page.fill("#key", key)
    await page.click("#login button")
    rows = page.locator("#list tr")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(0)).to_contain_text("gala")
    await expect(rows.nth(0)).to_contain_text("0 / 40")
    await expect(rows.nth(1)).to_contain_text("paused while people wait")
    assert await complaints(page) == []
    await picture(page, "operator-rooms")
    await page.click("#list a >> text=shop")
    await expect(page.locator("#waiting")).to_have_text("2")
    await page.click("text=All rooms")
    await expect(rows).to_have_count(2)


async def test_a_visitor_is_found_by_ticket_and_taken_out_of_the_line(harness: Harness) -> None:
    await harness.crowd(3)
    visitor = await harness.visitor(looks=False)
    await harness.arrive(visitor)
    await shows(visitor, "waiting")
    page = await _opened(harness, Role.OPERATOR)
    await page.fill("#find", (await visitor.inner_text("#ticket")).lower())
    await page.click("#find-form button")
    await expect(page.locator("#found li")).to_contain_text("waits, 3 ahead")
    assert await complaints(page) == []
    await page.click("#found button")
    await page.wait_for_selector("text=Nobody in line or inside has this ticket.")
    assert (await harness.service.room.state()).waiting == 3
    await page.fill("#find", "ABCD9")
    await page.click("#find-form button")
    await page.wait_for_selector("text=a ticket must be 4 to 16 letters")


async def test_webhooks_and_keys_are_made_and_taken_back_here(harness: Harness) -> None:
    page = await _opened(harness)
    await page.fill("#hook-url", "https://shop.example/room")
    await page.fill("#hook-events", "admitted, missed")
    await page.click("#hook-form button")
    await expect(page.locator("#hook-secret")).to_have_text(re.compile("^whs_"))
    await expect(page.locator("#hooks li")).to_contain_text("shop.example/room: admitted, missed")
    await page.fill("#key-name", "night shift")
    await page.click("#key-form button")
    await expect(page.locator("#key-made")).to_have_text(re.compile("^wrk_"))
    made = page.locator("#keys li", has_text="night shift: operator, shop alone")
    await expect(made).to_have_count(1)
    assert await complaints(page) == []
    await picture(page, "operator-keys")
    await page.click("[aria-label='Remove https://shop.example/room']")
    await expect(page.locator("#hooks li")).to_have_count(0)
    await made.locator("button").click()
    await expect(made).to_have_count(0)
    # What was shown once is gone with whoever saw it.
    await page.click("#sign-out")
    await page.wait_for_selector("#login:not([hidden])")
    assert "wrk_" not in await page.content()


async def test_what_went_wrong_stays_on_the_page_while_the_numbers_come_in(
    harness: Harness,
) -> None:
    page = await _opened(harness, Role.VIEWER)
    await page.click("#pause")
    await page.wait_for_selector("text=does not allow this")
    # The chart is drawn anew with each look at the numbers.
    await page.evaluate(
        """let seen = 0;
        new MutationObserver(() => { if (++seen >= 3) document.body.dataset.seen = 'enough'; })
          .observe(document.getElementById('line-active'), { attributes: true });"""
    )
    await page.wait_for_selector("body[data-seen=enough]")
    assert "does not allow this" in await page.inner_text("#trouble")


async def test_the_past_of_the_room_is_there_when_the_page_is_opened(harness: Harness) -> None:
    keys = harness.service.room.store.keys_now()
    minute = harness.service.context.clock.now_ms() // 60_000
    hour = keys.stats.rpartition(":")[2]
    samples = [
        f"{minute - back}:{hour}:{100 - back}:0:3:40:{500 - 9 * back}:{400 - 5 * back}:0:0:0:0:0:0"
        for back in range(2, 30)
    ]
    await harness.service.store.redis.rpush(keys.minutes, *samples)
    await harness.service.store.redis.hset(
        keys.stats,
        mapping={
            "total_enqueued": 500, "total_admitted": 400, "total_missed": 60,
            "peak_queue_size": 98, "estimate_n": 50, "estimate_in": 41, "estimate_off": 450,
        },
    )  # fmt: skip
    page = await _opened(harness, Role.VIEWER)
    await expect(page.locator("#people polyline").first).to_have_attribute(
        "points", re.compile(r"(\d+\.\d,\d+\.\d ?){20,}")
    )
    await expect(page.locator("#hours tr")).to_contain_text("15 %")
    await expect(page.locator("#hours tr")).to_contain_text("82 %")
    assert await complaints(page) == []
    await picture(page, "operator-history")
    await page.select_option("#span", "1440")
    await expect(page.locator("#people-top")).to_have_text("100")


async def test_an_alarm_is_set_and_seen(harness: Harness) -> None:
    await harness.crowd(3)
    page = await _opened(harness, Role.OPERATOR)
    await page.fill("#alarm-waiting", "2")
    await page.click("#alarm-form button")
    await expect(page.locator("#alarms")).to_have_text("3 people are in line")
    assert await complaints(page) == []
    await page.goto(f"{harness.url}/operate")
    await expect(page.locator("#list tr")).to_contain_text("3 people are in line")


async def test_a_wrong_key_opens_nothing(harness: Harness) -> None:
    page = await harness.visitor()
    await page.goto(f"{harness.url}/operate/{QUEUE}")
    await page.fill("#key", "wrk_guessed")
    await page.click("#login button")
    await page.wait_for_selector("text=the key is not valid")
    assert await page.is_hidden("#board")


async def test_a_viewer_may_look_and_not_touch(harness: Harness) -> None:
    page = await _opened(harness, Role.VIEWER)
    await page.click("#pause")
    await page.wait_for_selector("text=does not allow this")
    assert (await harness.service.room.state()).options.status == "active"


async def test_lanes_events_and_codes_are_set_here(harness: Harness) -> None:
    page = await _opened(harness)
    await expect(page.locator("#w3")).to_have_value("8")
    await page.fill("#w0", "3")
    await page.click("#weights-form button")
    await page.wait_for_selector("text=The lanes are set.")
    assert (await harness.service.room.state()).options.lane_weights == (3, 2, 4, 8)
    await page.fill("#event-name", "Gala")
    await page.fill("#gathers", "2020-01-01T10:00")
    await page.fill("#starts", "2030-01-01T10:00")
    await page.fill("#ends", "2030-01-01T23:00")
    await page.click("#event-form button")
    await page.wait_for_selector("#events li:has-text('gathering, commitment')")
    state = await harness.service.room.state()
    assert (state.phase, bool(state.fields["commitment"])) == ("prequeue", True)
    await page.fill("#batch", "press")
    await page.click("#codes-form button")
    await page.wait_for_selector("#batches li:has-text('press: 10 codes for lane 2')")
    ten = re.compile(r"(?:[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4}\n?){10}")
    await expect(page.locator("#codes")).to_have_value(ten)
    await page.wait_for_selector("#audit td:has-text('make-codes')")
    assert await complaints(page) == []


async def test_an_emergency_has_its_buttons_and_closing_is_meant(harness: Harness) -> None:
    page = await _opened(harness)
    await page.fill("#seats", "7")
    await page.click("text=Set the seats")
    await page.wait_for_selector("text=The seats are set.")
    await page.click("text=Put everybody in line")
    await expect(page.locator("#state")).to_have_text("paused")
    await page.click("text=Open up")
    await expect(page.locator("#state")).to_have_text("fail open")
    await page.fill("#close-name", "shup")
    await page.click("#close-form button")
    await page.wait_for_selector("text=Type shop to end it.")
    assert (await harness.service.room.state()).options.status != "closed"
    await page.fill("#close-name", "shop")
    await page.click("#close-form button")
    await page.wait_for_selector("text=It is over.")
    state = await harness.service.room.state()
    assert (state.options.status, state.options.max_active) == ("closed", 7)
    await page.select_option("#end-how", "sold-out")
    await page.fill("#end-text", "All gone")
    await page.fill("#end-link", "https://shop.example/may")
    await page.fill("#close-name", "shop")
    await page.click("#close-form button")
    await page.wait_for_selector("text=It is sold out.")
    await expect(page.locator("#state")).to_have_text("sold out")
    assert await complaints(page) == []


async def test_a_page_left_open_asks_for_the_key_again_when_the_sign_in_is_over(
    harness: Harness,
) -> None:
    page = await _opened(harness)
    redis: Any = harness.service.store.redis
    (session,) = [name async for name in redis.scan_iter("admin:session:*")]
    await redis.delete(session)
    for _ in range(15):
        assert await page.evaluate("fetch('/api/v1/admin/sign-in').then((a) => a.status)") == 401
    await page.click("#pause")
    await page.wait_for_selector("text=the sign-in is over")
    assert await page.is_hidden("#board")
    key = await harness.service.app.operators.issue("operator", Role.ADMIN)
    await page.fill("#key", key)
    await page.click("#login button")
    await page.wait_for_selector("#board:not([hidden])")


async def test_a_rate_above_the_slider_is_not_lowered_by_setting_it_again(harness: Harness) -> None:
    await harness.service.control.set_rate(200)
    page = await _opened(harness)
    await expect(page.locator("#rate")).to_have_value("12000")
    await page.click("#rate-form button")
    await page.wait_for_selector("text=The rate is set.")
    assert (await harness.service.room.state()).rate == 200


async def test_a_rate_that_is_typed_while_another_is_being_set_stays(harness: Harness) -> None:
    page = await _opened(harness)

    async def typing(route: Route) -> None:
        await page.fill("#rate-exact", "90")
        await route.continue_()

    await page.route("**/rate", typing)
    await page.fill("#rate-exact", "60")
    await page.click("#rate-form button")
    await page.wait_for_selector("text=The rate is set.")
    # Numbers have come since.
    await harness.service.control.show_message({"en": "Back at noon"})
    await expect(page.locator("#message-now")).to_have_text("Visitors read: Back at noon")
    await expect(page.locator("#rate-exact")).to_have_value("90")


async def test_signing_out_leaves_nothing_behind(harness: Harness) -> None:
    page = await _opened(harness)
    assert "wrk_" not in str(await page.evaluate("[{...sessionStorage}, {...localStorage}]"))
    assert "wr_o" not in await page.evaluate("document.cookie")
    await page.reload()
    await page.wait_for_selector("#board:not([hidden])")
    await page.click("#sign-out")
    await page.wait_for_selector("#login:not([hidden])")
    await page.reload()
    await page.wait_for_selector("#login:not([hidden])")
    assert await page.is_hidden("#board")

"""Middleware in front of a Python site, deciding on its own."""

import asyncio
import threading
from typing import Any
from wsgiref.util import setup_testing_defaults

import msgspec
import pytest

from tests.waitingroom.http.harness import QUEUE
from tests.waitingroom.middleware.shop import OPTIONS, PAGE, Shop
from waystation.core.clock import HandClock
from waystation.waitingroom.middleware import WaitingRoomWsgi


async def test_a_browser_is_sent_to_wait_and_anything_else_is_told(shop: Shop) -> None:
    page = await shop.http.get("/checkout?seat=4", headers=PAGE)
    assert page.status_code == 303
    assert page.headers["location"] == ("https://wait.test/wait/shop?target=%2Fcheckout%3Fseat%3D4")
    for response in (
        await shop.http.post("/checkout", headers=PAGE),
        await shop.http.get("/checkout"),
    ):
        assert response.status_code == 429
        assert response.json()["code"] == "WAITING_ROOM_REQUIRED"
    assert (await shop.http.get("/", headers=PAGE)).status_code == 200
    assert len(shop.seen) == 1


async def test_a_session_passes_and_the_site_sees_its_own_cookies_alone(shop: Shop) -> None:
    headers = await shop.session()
    assert (await shop.http.get("/checkout", headers=headers)).status_code == 200
    assert shop.seen[-1]["cookie"] == "own=1"


async def test_cookies_that_come_one_by_one_are_all_read(shop: Shop) -> None:
    """As HTTP/2 sends them; and attack 12, with one session a header."""
    headers = await shop.session()
    one, two = headers["cookie"].split("; ")
    for pair in ([one, two], [two, one]):
        sent = [("accept", "text/html"), *(("cookie", each) for each in pair)]
        assert (await shop.http.get("/checkout", headers=sent)).status_code == 200
    other = (await shop.session())["cookie"].split("; ")[1]
    sent = [("accept", "text/html"), ("cookie", two), ("cookie", other)]
    assert (await shop.http.get("/checkout", headers=sent)).status_code == 303


@pytest.mark.parametrize("by", ["the visitor", "an operator"])
async def test_a_session_that_was_ended_stops_passing_at_once(shop: Shop, by: str) -> None:
    headers = await shop.session()
    assert (await shop.http.get("/checkout", headers=headers)).status_code == 200
    token = headers["cookie"].rpartition("=")[2]
    place = await shop.service.room.get_place(shop.service.tokens.read_session(token, QUEUE).sub)
    if by == "the visitor":
        await shop.service.room.complete(place)
    else:
        await shop.service.room.terminate(place, "admin_revoked")
    assert (await shop.http.get("/checkout", headers=headers)).status_code == 303
    assert (await shop.http.post("/checkout", headers=headers)).status_code == 429
    assert len(shop.seen) == 1


async def test_a_session_that_was_ended_is_not_signed_anew(shop: Shop, clock: HandClock) -> None:
    headers = await shop.session()
    token = headers["cookie"].rpartition("=")[2]
    place = await shop.service.room.get_place(shop.service.tokens.read_session(token, QUEUE).sub)
    await shop.service.room.complete(place)
    await clock.advance(100)
    assert (await shop.http.get("/checkout", headers=headers)).status_code == 303


async def test_a_site_may_ask_about_a_session_less_often(shop: Shop, clock: HandClock) -> None:
    seldom = msgspec.structs.replace(OPTIONS, recheck=30)
    other = Shop(shop.service, clock, seldom)
    headers = await other.session()
    assert (await other.http.get("/checkout", headers=headers)).status_code == 200
    before = len(other.asked)
    for _ in range(5):
        assert (await other.http.get("/checkout", headers=headers)).status_code == 200
    assert len(other.asked) == before
    token = headers["cookie"].rpartition("=")[2]
    place = await shop.service.room.get_place(shop.service.tokens.read_session(token, QUEUE).sub)
    await shop.service.room.complete(place)
    await clock.advance(31)
    assert (await other.http.get("/checkout", headers=headers)).status_code == 303
    await other.http.aclose()


async def test_a_room_that_does_not_answer_is_no_reason_to_show_anybody_out(shop: Shop) -> None:
    headers = await shop.session()
    await shop.look_again()
    shop.away = True
    assert (await shop.http.get("/checkout", headers=headers)).status_code == 200


async def test_a_session_is_signed_anew_before_and_after_it_runs_out(
    shop: Shop, clock: HandClock
) -> None:
    headers = await shop.session()
    await clock.advance(100)
    soon = await shop.http.get("/checkout", headers=headers)
    assert soon.status_code == 200
    assert soon.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=")
    await clock.advance(600)
    late = await shop.http.get("/checkout", headers=headers)
    assert late.status_code == 200
    assert "set-cookie" in late.headers


async def test_the_site_frees_the_seat_with_one_header(shop: Shop) -> None:
    headers = await shop.session()
    done = await shop.http.get("/checkout/done", headers=headers)
    assert "wr-command" not in done.headers
    assert done.headers["set-cookie"].startswith(f"__Host-wr_s_{QUEUE}=; Path=/; Max-Age=0;")
    assert (await shop.service.room.state()).inside == 0


async def test_what_a_visitor_says_about_itself_never_reaches_the_site(shop: Shop) -> None:
    await shop.http.get("/", headers={"wr-visitor": "me", "cookie": "__Host-wr_v=secret; a=1"})
    assert "wr-visitor" not in shop.seen[0]
    assert shop.seen[0]["cookie"] == "a=1"


async def test_a_threaded_site_decides_the_same(shop: Shop) -> None:
    headers = await shop.session()
    fetch = shop.fetch_from(asyncio.get_running_loop())
    seen: list[dict[str, Any]] = []

    def flask_like(environ: dict[str, Any], start: Any) -> list[bytes]:
        seen.append(environ)
        start("200 OK", [("content-type", "text/plain")])
        return [b"in"]

    wrapped = WaitingRoomWsgi(flask_like, room="", options=OPTIONS, fetch=fetch)
    wrapped.gate._now = shop.middleware.gate._now  # pyright: ignore[reportPrivateUsage]

    def ask(cookie: str) -> tuple[str, dict[str, str]]:
        environ: dict[str, Any] = {"PATH_INFO": "/checkout", "HTTP_ACCEPT": "text/html"}
        environ |= {"HTTP_COOKIE": cookie, "HTTP_WR_VISITOR": "me"}
        setup_testing_defaults(environ)
        response: list[Any] = []
        list(wrapped(environ, lambda *given: response.extend(given)))  # pyright: ignore
        return response[0], dict(response[1])

    assert threading.current_thread() is threading.main_thread()
    status, sent = await asyncio.to_thread(ask, "")
    assert (status, sent["location"]) == (
        "303 See Other",
        "https://wait.test/wait/shop?target=%2Fcheckout",
    )
    status, _ = await asyncio.to_thread(ask, headers["cookie"])
    assert status == "200 OK"
    assert seen[0]["HTTP_COOKIE"] == "own=1"
    assert "HTTP_WR_VISITOR" not in seen[0]

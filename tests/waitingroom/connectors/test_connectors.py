"""What every connector does, tried with the program and the command of its page."""

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.patience import LIMIT_S
from tests.waitingroom.http.harness import QUEUE
from tests.waitingroom.middleware.block import Block, Got

PAGE = "Accept: text/html"
PAGES = [
    "python-sites#FastAPI",
    "python-sites#Flask",
    "python-sites#Django",
    "edge-worker",
]
pytestmark = [pytest.mark.timeout(180), pytest.mark.parametrize("shop", PAGES, indirect=True)]


async def ask(shop: Block, line: str, *headers: str) -> Got:
    return await shop.send(line, *headers, host=f"localhost:{shop.port}")


def cookie_in(got: Got) -> str:
    """The session that an answer sets, as a browser sends it back."""
    answer = got.headers["set-cookie"]
    assert all(word in answer for word in ("HttpOnly", "Secure", "SameSite=Lax", "Path=/")), answer
    return f"Cookie: mine=1; {answer.partition(';')[0]}"


async def brought(shop: Block) -> str:
    """The address that somebody comes back with whose turn it is."""
    person = shop.service.visitor()
    await person.join()
    await shop.service.admission.admit_now(1)
    host = f"localhost:{shop.port}"
    sealed = shop.service.tokens.seal_target(shop.service.room, host, "/checkout?seat=4")
    claimed = await person.ask("POST", "claim", {"return": sealed})
    address = urlsplit(str(claimed.json()["redirect_url"]))
    assert address.netloc == host
    return f"{address.path}?{address.query}"


async def test_nobody_sees_the_page_while_there_is_room(shop: Block) -> None:
    await shop.service.control.set_rate(100)
    got = await ask(shop, "GET /checkout", PAGE)
    assert (got.status, "You are in." in got.body) == (200, True)
    assert (await shop.service.room.state()).inside == 1
    again = await ask(shop, "GET /checkout", PAGE, cookie_in(got))
    assert again.status == 200
    assert (await shop.service.room.state()).inside == 1


async def test_whoever_has_no_session_waits_and_comes_back_with_one(shop: Block) -> None:
    got = await ask(shop, "GET /checkout?seat=4", PAGE)
    assert got.status == 303
    wait = urlsplit(got.headers["location"])
    assert (wait.netloc, wait.path) == (f"localhost:{shop.room}", f"/wait/{QUEUE}")
    assert parse_qs(wait.query)["target"] == [f"http://localhost:{shop.port}/checkout?seat=4"]
    answer = await ask(shop, "GET /checkout", "Accept: application/json")
    assert (answer.status, "WAITING_ROOM_REQUIRED" in answer.body) == (429, True)

    back = await brought(shop)
    came = await ask(shop, f"GET {back}", PAGE)
    assert (came.status, came.headers["location"]) == (303, "/checkout?seat=4")
    session = cookie_in(came)
    assert (await ask(shop, "GET /checkout?seat=4", PAGE, session)).status == 200
    sent = await shop.send("POST /checkout", session, body="seat=4", host=f"localhost:{shop.port}")
    assert sent.status in (200, 403, 405)  # by the site: Django asks for a token of its own
    # A token counts once.
    assert "set-cookie" not in (await ask(shop, f"GET {back}", PAGE)).headers


async def test_the_site_frees_the_seat_with_one_header(shop: Block) -> None:
    session = cookie_in(await ask(shop, f"GET {await brought(shop)}", PAGE))
    done = await ask(shop, "GET /checkout/done", PAGE, session)
    assert (done.status, "Thank you" in done.body) == (200, True)
    assert "wr-command" not in done.headers
    assert "Max-Age=0" in done.headers["set-cookie"]
    async with asyncio.timeout(LIMIT_S):
        # An ASGI site answers first and frees the seat then.
        while (await shop.service.room.state()).inside:
            await asyncio.sleep(0.05)
    assert (await ask(shop, "GET /checkout", PAGE, session)).status == 303


async def test_no_spelling_and_no_forged_session_gets_around_the_line(shop: Block) -> None:
    for path in ("//checkout", "/%63heckout", "/CHECKOUT", "/checkout/", "/./checkout"):
        assert (await ask(shop, f"GET {path}", PAGE)).status in (303, 404), path
    session = cookie_in(await ask(shop, f"GET {await brought(shop)}", PAGE))
    for wrong in (session[:-4] + "AAAA", f"{session}; {session.partition('; ')[2][:-3]}abc"):
        assert (await ask(shop, "GET /checkout", PAGE, wrong)).status == 303

"""The recipe for nginx, attacked through a real nginx."""

import asyncio

import pytest

from tests.support.forgery import forged
from tests.support.patience import LIMIT_S
from tests.waitingroom.middleware.block import Block

PAGE = "Accept: text/html"


async def test_whoever_has_no_session_is_sent_to_wait_and_comes_back(block: Block) -> None:
    got = await block.send("GET /checkout/tickets?seat=4", PAGE)
    assert got.status == 303
    assert got.headers["location"].startswith("/wait/shop?r=")
    page = await block.send(f"GET {got.headers['location']}", PAGE)
    assert page.status == 200
    facts = await block.facts(got.headers["location"])
    assert '"target":"/checkout/tickets?seat=4"' in facts.body
    assert block.seen == []


async def test_whoever_has_a_session_passes_and_the_site_sees_no_room_cookie(block: Block) -> None:
    session = await block.session()
    got = await block.send("GET /checkout", PAGE, f"Cookie: mine=1; {session}; yours=2")
    assert got.status == 200
    assert "the shop" in got.body
    assert "wr_s" not in block.seen[0][2].get("cookie", "")
    assert "mine=1" in block.seen[0][2]["cookie"]


async def test_what_is_not_protected_passes(block: Block) -> None:
    assert (await block.send("GET /", PAGE)).status == 200


@pytest.mark.parametrize(
    "line",
    [
        "GET //checkout",
        "GET /%63heckout",
        "GET /checkout;x",
        "GET /CHECKOUT",
        "GET /checkout/x.js",
        "GET /a/../checkout",
        "GET /./checkout",
        "GET /checkout/",
        "GET /checkout HTTP/1.0",
        "GET http://shop.test/checkout",
        "HEAD /checkout",
        "POST /checkout",
        "PUT /checkout",
        "DELETE /checkout",
    ],
)
async def test_no_spelling_gets_around_the_line(block: Block, line: str) -> None:
    """Attacks 24, 25 and 29: path tricks, other methods, static names."""
    got = await block.send(line, PAGE, body="x=1" if line.startswith("P") else "")
    assert got.status in (303, 429)
    assert block.seen == []


@pytest.mark.parametrize(
    "header",
    [
        "X-Original-URL: /",
        "X-Rewrite-URL: /",
        "X-HTTP-Method-Override: GET",
        "X-Original-URI: /",
        "X-Forwarded-Host: elsewhere.test",
        "Wr-Session: forged",
        "Wr-Visitor: forged",
        "Range: bytes=0-10",
        "Upgrade: websocket",
        "Forwarded: for=127.0.0.1",
        "X-Real-IP: 127.0.0.1",
    ],
)
async def test_no_header_gets_around_the_line(block: Block, header: str) -> None:
    """Attack 26: what a visitor says about itself does not count."""
    got = await block.send("GET /checkout", PAGE, header)
    assert got.status == 303
    assert block.seen == []
    page = await block.send(f"GET {got.headers['location']}", PAGE)
    facts = await block.facts(got.headers["location"])
    assert (page.status, facts.status) == (200, 200)
    assert "elsewhere" not in page.body + facts.body


async def test_an_app_is_told_instead_of_redirected(block: Block) -> None:
    got = await block.send("GET /checkout", "Accept: application/json")
    assert got.status == 429
    assert "WAITING_ROOM_REQUIRED" in got.body


async def test_an_answer_kept_for_one_is_not_given_to_another(block: Block) -> None:
    """Attack 27."""
    session = await block.session()
    for _ in range(3):
        assert (await block.send("GET /checkout", PAGE, f"Cookie: {session}")).status == 200
    assert (await block.send("GET /checkout", PAGE)).status == 303
    assert (await block.send("GET /checkout", PAGE, f"Cookie: {forged(session)}")).status == 303


async def test_two_sessions_under_one_name_are_refused(block: Block) -> None:
    """Attack 12."""
    session, other = await block.session(), await block.session()
    got = await block.send("GET /checkout", PAGE, f"Cookie: {session}; {other}")
    assert got.status in (400, 403, 303, 500, 503)
    assert block.seen == []


async def test_a_room_that_is_away_lets_nobody_in_who_was_not(block: Block) -> None:
    """Attack 28: the policy is obeyed, and nobody waits for long."""
    block.close_room()
    async with asyncio.timeout(LIMIT_S):
        while (got := await block.send("GET /checkout", PAGE)).status == 303:
            await asyncio.sleep(0.1)
    assert got.status == 503
    # Who has no scripts is told, and sent on when the room is back; a form is not sent twice.
    page = await block.send("GET /wait/shop?r=1", PAGE)
    pressed = await block.send("POST /wait/shop/join", PAGE, body="x=1")
    for each, again in ((got, "5"), (page, "5"), (pressed, "5;url=/wait/shop")):
        assert each.headers["content-type"] == "text/html"
        assert "The waiting room is not reachable" in each.body
        assert f'<meta http-equiv="refresh" content="{again}">' in each.body
    assert block.seen == []


async def test_the_questions_of_nginx_cannot_be_asked_from_outside(block: Block) -> None:
    assert (await block.send("GET /_wr_verify")).status == 404
    assert (await block.send("GET /api/v1/admin/queues")).body.find("queues") == -1
    assert block.seen[-1][1] == "/api/v1/admin/queues"


async def test_a_site_behind_the_middleware_is_not_to_be_had_around_the_proxy(block: Block) -> None:
    """Attack 23: whoever finds the origin's own port waits like everybody else."""
    assert (await block.send("GET /checkout", PAGE, port=block.origin)).status == 200
    async with block.guarded() as port:
        block.seen.clear()
        assert (await block.send("GET /checkout", PAGE, port=port)).status == 303
        assert (await block.send("POST /checkout", PAGE, port=port)).status == 429
        assert block.seen == []
        session = await block.session()
        got = await block.send("GET /checkout", PAGE, f"Cookie: {session}", port=port)
        assert got.status == 200
        assert len(block.seen) == 1

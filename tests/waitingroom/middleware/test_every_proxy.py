"""What holds behind nginx, Caddy, Envoy and Traefik alike."""

import asyncio

import pytest

from tests.support.forgery import forged
from tests.support.patience import LIMIT_S
from tests.waitingroom.middleware.block import Block

PAGE = "Accept: text/html"
SPELLINGS = (
    "/;/checkout", "/.;/checkout", "/foo/..;/checkout", "/%5ccheckout", "/%5Ccheckout",
    "/\\checkout", "/foo\\..\\checkout", "/%2563heckout", "/%252563heckout", "/%255ccheckout",
    "/;/%63heckout", "/a;b/../checkout", "/foo/..%3b/checkout", "/;x=%2e/Checkout",
)  # fmt: skip
"""What some servers behind a proxy take for /checkout."""
pytestmark = pytest.mark.timeout(120)


async def test_whoever_has_no_session_waits_and_comes_back(behind: Block) -> None:
    got = await behind.send("GET /checkout/tickets%20here?seat=4", PAGE)
    assert got.status == 303
    assert got.headers["location"].startswith("/wait/shop?r=")
    page = await behind.send(f"GET {got.headers['location']}", PAGE)
    assert page.status == 200
    facts = await behind.facts(got.headers["location"])
    assert '"target":"/checkout/tickets%20here?seat=4"' in facts.body
    answer = await behind.send("GET /checkout", "Accept: application/json")
    assert (answer.status, "WAITING_ROOM_REQUIRED" in answer.body) == (429, True)
    assert behind.seen == []


async def test_whoever_has_a_session_passes_and_nobody_else_does(
    behind: Block, request: pytest.FixtureRequest
) -> None:
    """Attacks 12 and 27."""
    session, other = await behind.session(), await behind.session()
    for line in ("GET /checkout", "POST /checkout/pay", "GET /Checkout?seat=4"):
        got = await behind.send(line, PAGE, f"Cookie: mine=1; {session}")
        assert (got.status, got.body.find("the shop") >= 0) == (200, True)
        if "nginx" not in request.node.name:  # whose recipe does not hand it on
            assert len(behind.seen[-1][2]["wr-visitor"]) == 16
        assert "mine=1" in behind.seen[-1][2]["cookie"]
    passed = len(behind.seen)
    for cookie in (forged(session), f"{session}; {other}", "mine=1"):
        assert (await behind.send("GET /checkout", PAGE, f"Cookie: {cookie}")).status != 200
    assert len(behind.seen) == passed


async def test_a_session_that_is_about_to_run_out_is_signed_anew(behind: Block) -> None:
    behind.service.tokens.session_s = 20
    session = await behind.session()
    got = await behind.send("GET /checkout", PAGE, f"Cookie: {session}")
    assert got.status == 200
    assert got.headers["set-cookie"].startswith("__Host-wr_s_shop=")


async def test_no_spelling_gets_around_the_line(behind: Block) -> None:
    """Attacks 24, 25 and 29: path tricks, other methods, static names."""
    for line in (
        "GET //checkout", "GET /%63heckout", "GET /checkout;x", "GET /CHECKOUT",
        "GET /checkout/x.js", "GET /a/../checkout", "GET /./checkout", "GET /checkout/",
        "GET /checkout HTTP/1.0", "GET /a/%2e%2e/checkout", "GET /a%2f..%2fcheckout",
        "GET /%2fcheckout", "GET http://shop.test/checkout", "HEAD /checkout", "POST /checkout",
        "PUT /checkout", "DELETE /checkout", "OPTIONS /checkout", "GET /wait/../checkout",
        "GET /api/v1/queues/%2e%2e/%2e%2e/%2e%2e/checkout",
    ):  # fmt: skip
        got = await behind.send(line, PAGE, body="x=1" if line.startswith("P") else "")
        # Some refuse an encoded slash or make it one, and Envoy wants HTTP/1.1.
        otherwise = (307, 400) if "%2f" in line else (426,) if line.endswith("HTTP/1.0") else ()
        assert got.status in (303, 429, *otherwise), line
        paths = [path.lower() for _, path, _ in behind.seen]
        assert not any("checkout" in path for path in paths), (line, paths)


async def test_no_header_gets_around_the_line(behind: Block) -> None:
    """Attack 26: what a visitor says about itself does not count."""
    for header in (
        "X-Original-URL: /", "X-Rewrite-URL: /", "X-HTTP-Method-Override: GET", "X-Original-URI: /",
        "X-Original-Host: elsewhere.test", "X-Forwarded-Host: elsewhere.test",
        "X-Forwarded-Uri: /elsewhere", "Wr-Session: forged", "Wr-Visitor: forged",
        "Range: bytes=0-10", "Upgrade: websocket", "Forwarded: for=127.0.0.1",
        "X-Real-IP: 127.0.0.1", "X-Envoy-Original-Path: /", "Connection: close, Cookie",
    ):  # fmt: skip
        got = await behind.send("GET /checkout", PAGE, header)
        assert got.status == 303, header
        page = await behind.send(f"GET {got.headers['location']}", PAGE)
        facts = await behind.facts(got.headers["location"])
        assert (page.status, facts.status) == (200, 200)
        assert "elsewhere" not in page.body + facts.body
    assert behind.seen == []
    await behind.send("GET /", "Wr-Visitor: me", "Wr-Queue: vip", "X-Original-URL: /checkout")
    assert not {"wr-visitor", "wr-queue", "x-original-url"} & behind.seen[-1][2].keys()


async def test_a_room_that_is_away_lets_nobody_in(apart: Block) -> None:
    """Attack 28: the policy is obeyed, and nobody waits for long."""
    apart.close_room()
    async with asyncio.timeout(LIMIT_S):
        while (got := await apart.send("GET /checkout", PAGE)).status == 303:
            await asyncio.sleep(0.1)
    assert got.status in (500, 502, 503)
    assert apart.seen == []
    assert (await apart.send("GET /", PAGE)).status == 200


async def test_what_is_for_operators_stays_inside(behind: Block) -> None:
    for path in ("/api/v1/admin/queues", "/operate/shop", "/metrics", "/v1/verify?queue=shop"):
        await behind.send(f"GET {path}", PAGE)
        assert behind.seen[-1][1] == path.partition("?")[0]


async def test_no_spelling_that_a_site_could_decode_gets_around_the_line(behind: Block) -> None:
    """Attack 24: what Tomcat, Spring or IIS make of a path."""
    passed = []
    for path in SPELLINGS:
        behind.seen.clear()
        got = await behind.send(f"GET {path}", PAGE)
        if behind.seen or got.status == 200:
            passed.append((path, got.status, [each[1] for each in behind.seen]))
    assert passed == []


async def test_paths_that_only_look_odd_go_on_to_the_site(
    behind: Block, request: pytest.FixtureRequest
) -> None:
    odd = ["/products;colour=red/12", "/a%20b", "/caf%C3%A9", "/x?q=%2563;"]
    if "traefik" not in request.node.name:  # which refuses an encoded % itself
        odd.append("/search/100%25")
    for path in odd:
        got = await behind.send(f"GET {path}", PAGE)
        assert (got.status, len(behind.seen)) == (200, 1), path
        behind.seen.clear()


async def test_a_session_that_was_ended_stops_passing_at_the_next_request(behind: Block) -> None:
    session = await behind.session()
    for _ in range(2):
        assert (await behind.send("GET /checkout", PAGE, f"Cookie: {session}")).status == 200
    token = session.partition("=")[2]
    place = await behind.service.room.get_place(
        behind.service.tokens.read_session(token, "shop").sub
    )
    await behind.service.room.terminate(place, "admin_revoked")
    assert (await behind.send("GET /checkout", PAGE, f"Cookie: {session}")).status == 303
    assert len(behind.seen) == 2


async def test_the_site_never_sees_a_cookie_of_the_room(behind: Block) -> None:
    session = await behind.session()
    ours = f"__Host-wr_v=zzz; a=1; {session}; b=2; __Host-wr_q_shop=qqq; __Host-wr_o=ooo"
    for cookie in (ours, f"b=2; {ours}", f"{session}; a=1; b=2; __Host-wr_v=zzz"):
        got = await behind.send("GET /checkout", PAGE, f"Cookie: {cookie}")
        assert got.status == 200
        cookies = behind.seen[-1][2]["cookie"]
        assert "wr_" not in cookies
        assert {each.strip() for each in cookies.split(";")} == {"a=1", "b=2"}
    alone = await behind.send("GET /checkout", PAGE, f"Cookie: {session}; __Host-wr_v=zzz")
    assert alone.status == 200
    assert "wr_" not in behind.seen[-1][2].get("cookie", "")


@pytest.mark.parametrize("corner", ["nginx", "caddy", "envoy"], indirect=True)
async def test_nor_does_the_part_that_nobody_waits_for(behind: Block) -> None:
    """Traefik cannot take cookies out of a request by itself, as its page says."""
    many = "; ".join(f"__Host-wr_s_{number}=x" for number in range(20))
    for cookie in ("a=1; __Host-wr_v=zzz; __Host-wr_s_shop=sss", f"{many}; a=1", "a=1", many):
        await behind.send("GET /", PAGE, f"Cookie: {cookie}")
        assert "wr_" not in behind.seen[-1][2].get("cookie", "")
    await behind.send("GET /", PAGE, "Cookie: a=1; my__Host-wr_x=2")
    assert behind.seen[-1][2]["cookie"] == "a=1; my__Host-wr_x=2"


async def test_two_sessions_under_one_name_wait_like_everybody_else(behind: Block) -> None:
    """Attack 12."""
    session, other = await behind.session(), await behind.session()
    got = await behind.send("GET /checkout", PAGE, f"Cookie: {session}; {other}")
    assert got.status == 303
    page = await behind.send(f"GET {got.headers['location']}", PAGE, f"Cookie: {session}; {other}")
    assert page.status == 200
    # A site's own cookies may well come twice, from two paths.
    got = await behind.send("GET /checkout", PAGE, f"Cookie: a=1; {session}; a=2")
    assert got.status == 200


async def test_no_free_page_is_a_way_to_speak_http2_with_the_site(behind: Block) -> None:
    """A site that changes to HTTP/2 would be asked for anything, past the proxy's eyes."""
    for upgrade in (
        ["h2c"],
        ["H2C"],
        ["h2c, websocket"],
        ["websocket", "h2c"],
        ["h2c", "websocket"],
    ):
        asked = ["Connection: Upgrade", "HTTP2-Settings: AAMAAABk"]
        got = await behind.send("GET /", PAGE, *asked, *(f"Upgrade: {each}" for each in upgrade))
        assert got.status != 101
    asked_for = [each[2].get("upgrade", "").lower() for each in behind.seen]
    assert not any("h2c" in each for each in asked_for), asked_for

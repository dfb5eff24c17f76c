"""The recipes for Caddy, Envoy and Traefik, attacked through the real ones."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.forgery import forged
from tests.support.patience import LIMIT_S
from tests.waitingroom.middleware import recipes
from tests.waitingroom.middleware.block import Block
from tests.waitingroom.middleware.conftest import block_behind

PAGE = "Accept: text/html"
PROXIES = {"caddy": recipes.caddy, "envoy": recipes.envoy, "traefik": recipes.traefik}


@pytest.fixture(params=PROXIES)
async def block(
    request: pytest.FixtureRequest, redis_url: str, tmp_path: Path
) -> AsyncGenerator[Block]:
    async with block_behind(PROXIES[request.param], redis_url, tmp_path) as built:
        yield built


async def test_whoever_has_no_session_waits_and_comes_back(block: Block) -> None:
    got = await block.send("GET /checkout/tickets%20here?seat=4", PAGE)
    assert got.status == 303
    assert got.headers["location"].startswith("/wait/shop?r=")
    page = await block.send(f"GET {got.headers['location']}", PAGE)
    assert page.status == 200
    facts = await block.facts(got.headers["location"])
    assert '"target":"/checkout/tickets%20here?seat=4"' in facts.body
    answer = await block.send("GET /checkout", "Accept: application/json")
    assert (answer.status, "WAITING_ROOM_REQUIRED" in answer.body) == (429, True)
    assert block.seen == []


async def test_whoever_has_a_session_passes_and_nobody_else_does(block: Block) -> None:
    """Attacks 12 and 27."""
    session, other = await block.session(), await block.session()
    for line in ("GET /checkout", "POST /checkout/pay", "GET /Checkout?seat=4"):
        got = await block.send(line, PAGE, f"Cookie: mine=1; {session}")
        assert (got.status, got.body.find("the shop") >= 0) == (200, True)
        assert len(block.seen[-1][2]["wr-visitor"]) == 16
        assert "mine=1" in block.seen[-1][2]["cookie"]
    passed = len(block.seen)
    for cookie in (forged(session), f"{session}; {other}"):
        assert (await block.send("GET /checkout", PAGE, f"Cookie: {cookie}")).status != 200
    assert len(block.seen) == passed


async def test_a_session_that_is_about_to_run_out_is_signed_anew(block: Block) -> None:
    block.house.tokens.session_s = 20
    session = await block.session()
    got = await block.send("GET /checkout", PAGE, f"Cookie: {session}")
    assert got.status == 200
    assert got.headers["set-cookie"].startswith("__Host-wr_s_shop=")


async def test_no_spelling_gets_around_the_line(block: Block) -> None:
    """Attacks 24, 25 and 29: path tricks, other methods, static names."""
    for line in (
        "GET //checkout", "GET /%63heckout", "GET /checkout;x", "GET /CHECKOUT",
        "GET /checkout/x.js", "GET /a/../checkout", "GET /./checkout", "GET /checkout/",
        "GET /a/%2e%2e/checkout", "GET /a%2f..%2fcheckout", "GET /%2fcheckout",
        "GET http://shop.test/checkout", "HEAD /checkout", "POST /checkout", "PUT /checkout",
        "DELETE /checkout", "OPTIONS /checkout", "GET /wait/../checkout",
        "GET /api/v1/queues/%2e%2e/%2e%2e/%2e%2e/checkout",
    ):  # fmt: skip
        got = await block.send(line, PAGE, body="x=1" if line.startswith("P") else "")
        assert got.status != 200, line
        paths = [path.lower() for _, path, _ in block.seen]
        assert not any("checkout" in path for path in paths), (line, paths)


async def test_no_header_gets_around_the_line(block: Block) -> None:
    """Attack 26: what a visitor says about itself does not count."""
    for header in (
        "X-Original-URL: /", "X-Rewrite-URL: /", "X-HTTP-Method-Override: GET", "X-Original-URI: /",
        "X-Original-Host: elsewhere.test", "X-Forwarded-Host: elsewhere.test",
        "X-Forwarded-Uri: /elsewhere", "Wr-Session: forged", "Wr-Visitor: forged",
        "Range: bytes=0-10", "Upgrade: websocket", "Forwarded: for=127.0.0.1",
        "X-Real-IP: 127.0.0.1", "X-Envoy-Original-Path: /", "Connection: close, Cookie",
    ):  # fmt: skip
        got = await block.send("GET /checkout", PAGE, header)
        assert got.status == 303, header
        page = await block.send(f"GET {got.headers['location']}", PAGE)
        facts = await block.facts(got.headers["location"])
        assert (page.status, facts.status) == (200, 200)
        assert "elsewhere" not in page.body + facts.body
    assert block.seen == []
    await block.send("GET /", "Wr-Visitor: me", "Wr-Queue: vip", "X-Original-URL: /checkout")
    assert not {"wr-visitor", "wr-queue", "x-original-url"} & block.seen[-1][2].keys()


async def test_a_room_that_is_away_lets_nobody_in(block: Block) -> None:
    """Attack 28: the policy is obeyed, and nobody waits for long."""
    block.close_room()
    async with asyncio.timeout(LIMIT_S):
        while (got := await block.send("GET /checkout", PAGE)).status == 303:
            await asyncio.sleep(0.1)
    assert got.status in (500, 502, 503)
    assert block.seen == []
    assert (await block.send("GET /", PAGE)).status == 200


async def test_what_is_for_operators_stays_inside(block: Block) -> None:
    for path in ("/api/v1/admin/queues", "/operate/shop", "/metrics", "/v1/verify?queue=shop"):
        await block.send(f"GET {path}", PAGE)
        assert block.seen[-1][1] == path.partition("?")[0]

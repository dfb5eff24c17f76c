"""What holds behind nginx, Caddy, Envoy and Traefik alike."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.waitingroom.middleware import recipes
from tests.waitingroom.middleware.block import Block
from tests.waitingroom.middleware.conftest import block_behind
from tests.waitingroom.middleware.nginx import nginx

PAGE = "Accept: text/html"
PROXIES = {
    "nginx": nginx,
    "caddy": recipes.caddy,
    "envoy": recipes.envoy,
    "traefik": recipes.traefik,
}
SPELLINGS = (
    "/;/checkout", "/.;/checkout", "/foo/..;/checkout", "/%5ccheckout", "/%5Ccheckout",
    "/\\checkout", "/foo\\..\\checkout", "/%2563heckout", "/%252563heckout", "/%255ccheckout",
    "/;/%63heckout", "/a;b/../checkout", "/foo/..%3b/checkout", "/;x=%2e/Checkout",
)  # fmt: skip
"""What some servers behind a proxy take for /checkout."""
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=PROXIES)
async def block(
    request: pytest.FixtureRequest, redis_url: str, tmp_path: Path
) -> AsyncGenerator[Block]:
    async with block_behind(PROXIES[request.param], redis_url, tmp_path) as built:
        yield built


async def test_no_spelling_that_a_site_could_decode_gets_around_the_line(block: Block) -> None:
    """Attack 24: what Tomcat, Spring or IIS make of a path."""
    passed = []
    for path in SPELLINGS:
        block.seen.clear()
        got = await block.send(f"GET {path}", PAGE)
        if block.seen or got.status == 200:
            passed.append((path, got.status, [each[1] for each in block.seen]))
    assert passed == []


async def test_paths_that_only_look_odd_go_on_to_the_site(
    block: Block, request: pytest.FixtureRequest
) -> None:
    odd = ["/products;colour=red/12", "/a%20b", "/caf%C3%A9", "/x?q=%2563;"]
    if "traefik" not in request.node.name:  # which refuses an encoded % itself
        odd.append("/search/100%25")
    for path in odd:
        got = await block.send(f"GET {path}", PAGE)
        assert (got.status, len(block.seen)) == (200, 1), path
        block.seen.clear()


async def test_a_session_that_was_ended_stops_passing_at_the_next_request(block: Block) -> None:
    session = await block.session()
    for _ in range(2):
        assert (await block.send("GET /checkout", PAGE, f"Cookie: {session}")).status == 200
    token = session.partition("=")[2]
    place = await block.house.room.get_place(block.house.tokens.read_session(token, "shop").sub)
    await block.house.room.terminate(place, "admin_revoked")
    assert (await block.send("GET /checkout", PAGE, f"Cookie: {session}")).status == 303
    assert len(block.seen) == 2


async def test_the_site_never_sees_a_cookie_of_the_room(block: Block) -> None:
    session = await block.session()
    ours = f"__Host-wr_v=zzz; a=1; {session}; b=2; __Host-wr_q_shop=qqq; __Host-wr_o=ooo"
    for cookie in (ours, f"b=2; {ours}", f"{session}; a=1; b=2; __Host-wr_v=zzz"):
        got = await block.send("GET /checkout", PAGE, f"Cookie: {cookie}")
        assert got.status == 200
        cookies = block.seen[-1][2]["cookie"]
        assert "wr_" not in cookies
        assert {each.strip() for each in cookies.split(";")} == {"a=1", "b=2"}
    alone = await block.send("GET /checkout", PAGE, f"Cookie: {session}; __Host-wr_v=zzz")
    assert alone.status == 200
    assert "wr_" not in block.seen[-1][2].get("cookie", "")


@pytest.mark.parametrize("block", ["nginx", "caddy", "envoy"], indirect=True)
async def test_nor_does_the_part_that_nobody_waits_for(block: Block) -> None:
    """Traefik cannot take cookies out of a request by itself, as its page says."""
    many = "; ".join(f"__Host-wr_s_{number}=x" for number in range(20))
    for cookie in ("a=1; __Host-wr_v=zzz; __Host-wr_s_shop=sss", f"{many}; a=1", "a=1", many):
        await block.send("GET /", PAGE, f"Cookie: {cookie}")
        assert "wr_" not in block.seen[-1][2].get("cookie", "")
    await block.send("GET /", PAGE, "Cookie: a=1; my__Host-wr_x=2")
    assert block.seen[-1][2]["cookie"] == "a=1; my__Host-wr_x=2"


async def test_two_sessions_under_one_name_wait_like_everybody_else(block: Block) -> None:
    """Attack 12."""
    session, other = await block.session(), await block.session()
    got = await block.send("GET /checkout", PAGE, f"Cookie: {session}; {other}")
    assert got.status == 303
    page = await block.send(f"GET {got.headers['location']}", PAGE, f"Cookie: {session}; {other}")
    assert page.status == 200
    # A site's own cookies may well come twice, from two paths.
    got = await block.send("GET /checkout", PAGE, f"Cookie: a=1; {session}; a=2")
    assert got.status == 200


async def test_no_free_page_is_a_way_to_speak_http2_with_the_site(block: Block) -> None:
    """A site that changes to HTTP/2 would be asked for anything, past the proxy's eyes."""
    for upgrade in (
        ["h2c"],
        ["H2C"],
        ["h2c, websocket"],
        ["websocket", "h2c"],
        ["h2c", "websocket"],
    ):
        asked = ["Connection: Upgrade", "HTTP2-Settings: AAMAAABk"]
        got = await block.send("GET /", PAGE, *asked, *(f"Upgrade: {each}" for each in upgrade))
        assert got.status != 101
    asked_for = [each[2].get("upgrade", "").lower() for each in block.seen]
    assert not any("h2c" in each for each in asked_for), asked_for

"""Whatever host somebody claims to ask for, no link of the room leads there."""

import pytest

from tests.waitingroom.middleware.block import Block, Got

PAGE = "Accept: text/html"
EVIL = "evil.example"
PROXIES = pytest.mark.parametrize("corner", ["nginx", "envoy", "traefik"], indirect=True)
CLAIMED = ("X-Original-Host", "X-Forwarded-Host", "X-Host", "Forwarded", "X-Forwarded-Server")
pytestmark = pytest.mark.timeout(120)


@PROXIES
async def test_no_proxy_lets_a_foreign_host_into_a_link(behind: Block) -> None:
    await _leads_nowhere(behind, await behind.send("GET /checkout", PAGE, host=EVIL))
    await _leads_nowhere(
        behind, await behind.send("GET http://shop.test/checkout", PAGE, host=EVIL)
    )
    for name in CLAIMED:
        value = f"host={EVIL}" if name == "Forwarded" else EVIL
        await _leads_nowhere(behind, await behind.send("GET /checkout", PAGE, f"{name}: {value}"))
    assert behind.seen == []


@PROXIES
async def test_a_host_is_believed_from_a_proxy_and_only_if_the_operator_named_it(
    behind: Block,
) -> None:
    await behind.service.room.store.write({"return_hosts": "shop.test"})
    await behind.service.room.state()
    sent = await behind.send("GET /checkout?seat=4", PAGE)
    facts = await behind.facts(sent.headers["location"])
    assert "//shop.test/checkout?seat=4" in facts.body


async def test_the_middleware_lets_no_foreign_host_into_a_link(block: Block) -> None:
    async with block.guarded() as port:
        asked = [await block.send("GET /checkout", PAGE, port=port, host=EVIL)]
        for name in CLAIMED:
            asked.append(await block.send("GET /checkout", PAGE, f"{name}: {EVIL}", port=port))
        for each in asked:
            await _leads_nowhere(block, each)


async def test_the_room_seals_no_foreign_host_whoever_asks(block: Block) -> None:
    path = "/v1/verify?queue=shop"
    for name in ("Host", *CLAIMED):
        host = EVIL if name == "Host" else "shop.test"
        claims = [] if name == "Host" else [f"{name}: {EVIL}"]
        answer = await block.send(f"GET {path}", *claims, port=block.room, host=host)
        assert answer.status == 401
        page = await block.send(f"GET {answer.headers['wr-location']}", PAGE)
        facts = await block.facts(answer.headers["wr-location"])
        assert EVIL not in page.body + facts.body + page.headers["content-security-policy"]


async def _leads_nowhere(block: Block, sent: Got) -> None:
    """Follow a link on the real host, as the one would whom it was sent to."""
    assert EVIL not in sent.headers.get("location", "")
    if sent.status != 303:
        assert sent.status in (400, 404, 421)
        return
    page = await block.send(f"GET {sent.headers['location']}", PAGE)
    facts = await block.facts(sent.headers["location"])
    assert (page.status, facts.status) == (200, 200)
    assert EVIL not in page.body + facts.body + page.headers["content-security-policy"]

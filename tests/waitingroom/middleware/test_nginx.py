"""What only the recipe for nginx does, and what a site behind it does by itself."""

import asyncio

from tests.support.patience import LIMIT_S
from tests.waitingroom.middleware.block import Block

PAGE = "Accept: text/html"


async def test_a_room_that_is_away_lets_nobody_in_who_was_not(block: Block) -> None:
    """Attack 28: the policy is obeyed, and nobody waits for long."""
    block.close_room()
    async with asyncio.timeout(LIMIT_S):
        while (got := await block.send("GET /checkout", PAGE)).status == 303:
            await asyncio.sleep(0.1)
    assert got.status == 503
    # Without scripts one gets a page and is sent on when the room is back; no form is sent twice.
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

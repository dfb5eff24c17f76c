"""Two hundred spellings of a path through every connector, judged by what the site gets."""

import asyncio
import json
import re
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.size import size
from tests.waitingroom.connectors.conftest import following, program_of
from tests.waitingroom.http import harness
from tests.waitingroom.middleware.block import Block
from tests.waitingroom.middleware.conftest import PROXIES
from tests.waitingroom.middleware.nginx import RECIPE
from tests.waitingroom.middleware.spellings import LISTED, spellings, taken_for
from tests.wire.install import find_node
from waystation.core.http.server import serving
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.rules import Rule

PAGE = "Accept: text/html"
ODD = ("/products;colour=red/12", "/a%20b", "/caf%C3%A9", "/blog/checkout", "/x?q=/../checkout")
"""What no connector may send to the line."""
pytestmark = pytest.mark.timeout(180)
every_connector = pytest.mark.parametrize("connector", [*PROXIES, "edge-worker"])


class Site:
    """A site that answers everything, and remembers the line that each request began with."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.numbers: list[int | None] = []
        """The numbers that those requests carried."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
            self.seen.append(head.split(b" ")[1].decode("latin-1"))
            number = re.search(rb"\r\nx-number: (\d+)", head, re.IGNORECASE)
            self.numbers.append(int(number[1]) if number else None)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            break
        await writer.drain()
        writer.close()


@asynccontextmanager
async def behind(
    connector: str, redis_url: str, folder: Path, *, away: bool = False
) -> AsyncGenerator[tuple[Block, Site]]:
    """A site behind a connector, and the room that it asks."""
    site, room, origin = Site(), free_port(), free_port()
    options = ServerOptions(poll_floor=0, trusted_proxies=["127.0.0.1/32"])
    async with (
        harness.service(redis_url, options, newcomers_per_minute=0) as service,
        serving(service.app, host="127.0.0.1", port=free_port() if away else room),
        await asyncio.start_server(site.answer, "127.0.0.1", origin),
    ):
        block = Block(service)
        block.room, block.origin = room, origin
        if connector == "edge-worker":
            block.port = free_port()
            async with following(connector, block, folder):
                yield block, site
        else:
            async with PROXIES[connector](folder, room=room, origin=origin) as block.port:
                yield block, site


async def _send_all(block: Block, paths: list[str]) -> None:
    """Ask for all of them, some at once: Envoy keeps whom it refuses for a second."""
    free = asyncio.Semaphore(20)

    async def send(number: int, path: str) -> None:
        async with free:
            await block.send(f"GET {path}", PAGE, f"X-Number: {number}")

    async with asyncio.TaskGroup() as group:
        for number, path in enumerate(paths):
            group.create_task(send(number, path))


@every_connector
async def test_whatever_a_site_takes_for_the_protected_part_needs_a_session(
    connector: str, redis_url: str, tmp_path: Path
) -> None:
    async with behind(connector, redis_url, tmp_path) as (block, site):
        await _send_all(block, spellings())
        assert [
            (spellings()[number] if number is not None else None, seen, kinds)
            for number, seen in zip(site.numbers, site.seen, strict=True)
            if (kinds := taken_for(seen))
        ] == []
        for path in ODD:
            site.seen.clear()
            got = await block.send(f"GET {path}", PAGE)
            assert (got.status, len(site.seen)) == (200, 1), path
        # Whoever has a session gets what was asked for, as it was asked for or cleaned.
        session = await block.session()
        for path in LISTED[:20]:
            await block.send(f"GET {path}", PAGE, f"Cookie: {session}")
        assert any("checkout" in each for each in site.seen)


@every_connector
async def test_a_path_with_thousands_of_odd_signs_needs_a_session_too(
    connector: str, redis_url: str, tmp_path: Path
) -> None:
    async with behind(connector, redis_url, tmp_path) as (block, site):
        site.seen.clear()
        for path in ("/;/checkout" + ";" * 6000, "/x/.." * 1200 + "/checkout"):
            got = await block.send(f"GET {path}", PAGE)
            assert (got.status >= 300, site.seen) == (True, []), path[:20]


@every_connector
async def test_a_connector_that_starts_while_the_room_is_away_lets_nobody_in(
    connector: str, redis_url: str, tmp_path: Path
) -> None:
    async with behind(connector, redis_url, tmp_path, away=True) as (block, site):
        site.seen.clear()
        got = await block.send("GET /checkout", PAGE)
        assert (got.status >= 500, site.seen) == (True, [])
        assert (await block.send("GET /other", PAGE)).status == 200


STARS = "/*/a/*/b/*/c/*/d/*/e/*/f"


async def _worker_says(asked: list[tuple[str, str]], what: str) -> list[bool]:
    """What a function of the page's edge worker answers for rules and paths."""
    say = f"console.log(JSON.stringify(JSON.parse(await read()).map((each) => {what}(...each))));"
    read = "const read = () => new Response(process.stdin).text();"
    node = await asyncio.create_subprocess_exec(
        find_node().program, "--input-type=module", "-e", program_of("edge-worker") + read + say,
        stdin=PIPE, stdout=PIPE,
    )  # fmt: skip
    try:
        out, _ = await node.communicate(json.dumps(asked).encode())
    finally:
        if node.returncode is None:
            node.kill()
            await node.wait()
    return json.loads(out)


async def test_the_edge_worker_takes_a_rule_as_the_middleware_does() -> None:
    rules = ["/", "/*", "/a", "/a*", "/A*", "/*a", "/a*a", "/*ab*b", "/**b", "/*/b*", STARS]
    paths = ["/", "/a", "/b", "/ab", "/aa", "/ba", "/bab", "/abb", "/x/b", "/a/a", "/x/b/b"]
    asked = [(rule, path) for rule in rules for path in paths]
    wanted = [Rule(queue="shop", path=rule).fits(path) for rule, path in asked]
    assert await _worker_says(asked, "fits") == wanted


async def test_a_long_path_costs_the_edge_worker_no_more_than_its_length() -> None:
    """The same steps for every visitor: what one of them sends must not take the time of all."""
    long = ["/a/b/c/d/e" * 800, "/x/a/y/b/z" * 800, "/a/" * 3000, "/a" * 2000 + "/.." * 2000]
    assert await _worker_says([(STARS, each) for each in long], "mayBe") == [False] * 4


@pytest.mark.parametrize("sign", [";", "/", "%", "//", "/./", "%5c", "; ", " ", ":1", "a", "\\"])
def test_no_pattern_of_the_recipe_for_nginx_gives_up_on_a_long_request(sign: str) -> None:
    """After ten million steps nginx takes what it could not judge for what needs no session."""
    patterns = re.findall(r'"~(\*?)(.+?)" ', RECIPE.read_text())
    assert len(patterns) > 10
    for case, pattern in patterns:
        written = pattern.replace("(?<", "(?P<").replace("\\\\", "\\")
        compiled = re.compile(written, re.IGNORECASE if case else 0)
        for path in ("/;/checkout", "/x", ""):
            compiled.search(path + sign * size(100_000, full=400_000))

"""bull-board itself, unmodified, in a browser: it shows the history that the console reads."""

import asyncio
from asyncio.subprocess import PIPE
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, Response

from tests.console.boards import PEERS, served
from tests.support.patience import LIMIT_S
from tests.wire.install import find_node, installed
from waystation.bullmq import Queue

BOARD = "bull-board-9"


def _of_ninety_days(answer: Response) -> bool:
    asked = parse_qs(urlsplit(answer.url).query)
    if "/api/metrics/history" not in answer.url or "from" not in asked:
        return False
    return int(asked["to"][0]) - int(asked["from"][0]) > 80 * 86_400_000


# Its packages are 30 MB that no other test needs.
@pytest.mark.long
async def test_bull_board_shows_ninety_days(
    redis_url: str, browser: Browser, tmp_path: Path
) -> None:
    folder = await asyncio.to_thread(installed, BOARD, peers=PEERS)
    program = (PEERS / BOARD / "board.mjs").read_text()
    async with Queue("mail", redis_url) as queue, served(redis_url, tmp_path) as console:
        await queue.add("send")
        board = await asyncio.create_subprocess_exec(
            find_node().program, "--input-type=module", "-e", program,
            console.file.as_uri(), redis_url, console.url, "mail",
            cwd=folder, stdout=PIPE,
        )  # fmt: skip
        try:
            assert board.stdout is not None
            async with asyncio.timeout(LIMIT_S):
                port = int(await board.stdout.readline())
            page = await browser.new_page(viewport={"width": 1440, "height": 1000})
            page.set_default_timeout(LIMIT_S * 1000)
            await page.goto(f"http://127.0.0.1:{port}/metrics-history")
            async with page.expect_response(_of_ninety_days) as answered:
                await page.get_by_text("90d", exact=True).click()
            answer = await answered.value
            assert answer.status == 200, await answer.text()
            points = await answer.json()
            assert sum(each["value"] for each in points["completed"]) == 152
            assert sum(each["value"] for each in points["failed"]) == 3
            await page.get_by_text("Loading...").wait_for(state="hidden")
            assert await page.locator("main svg, #root svg").count()
            await page.close()
        finally:
            board.kill()
            await board.wait()

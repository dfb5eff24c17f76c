"""Chromium with real tabs: one behind another is hidden, and its timers are slowed down.

Playwright makes every page believe that it is in front, so this speaks to the browser itself.
"""

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.browser.conftest import FLAGS
from tests.support.patience import LIMIT_S
from tests.support.programs import require_program

# Timers of a hidden page come down to one a minute after five minutes; here after some seconds.
SOON = "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/5"
TALK = 3, 4
"""The descriptors that Chromium reads commands from and writes answers to."""


class Tab:
    """One tab of the window."""

    def __init__(self, window: "Window", target: str, session: str) -> None:
        self._window = window
        self._target = target
        self._session = session

    async def evaluate(self, script: str) -> Any:
        """What an expression is on this page."""
        answer = await self._window.command(
            "Runtime.evaluate", self._session, expression=script, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true here."""
        asked = {"expression": script, "returnByValue": True}
        async with asyncio.timeout(LIMIT_S):
            while True:
                # A page that is about to give way to the next one has no answer.
                answer = await self._window.ask("Runtime.evaluate", self._session, **asked)
                if answer.get("result", {}).get("result", {}).get("value"):
                    return
                await asyncio.sleep(0.2)

    async def open(self, url: str) -> None:
        """Go there."""
        await self._window.command("Page.navigate", self._session, url=url)

    async def show(self) -> None:
        """Bring this tab to the front; the others are hidden then."""
        await self._window.command("Target.activateTarget", targetId=self._target)


class Window:
    """A browser with one window."""

    def __init__(self, reader: asyncio.StreamReader, commands: int) -> None:
        self._reader = reader
        self._commands = commands
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def tab(self) -> Tab:
        """A new tab, in front."""
        target = (await self.command("Target.createTarget", url="about:blank"))["targetId"]
        answer = await self.command("Target.attachToTarget", targetId=target, flatten=True)
        return Tab(self, target, answer["sessionId"])

    async def command(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Have the browser do something, and say what came of it."""
        answer = await self.ask(method, session, **params)
        assert "error" not in answer, answer
        return answer["result"]

    async def ask(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """The browser's whole answer, be it an error."""
        number = len(self._asked) + 1
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        said: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            said["sessionId"] = session
        os.write(self._commands, json.dumps(said).encode() + b"\0")
        return await asyncio.wait_for(answer, LIMIT_S)

    async def listen(self) -> None:
        """Read what the browser says, as long as it speaks."""
        while True:
            message = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            if "id" in message:
                self._asked[message["id"]].set_result(message)


@asynccontextmanager
async def window(folder: Path) -> AsyncGenerator[Window]:
    """A browser of our own, whose hidden tabs are treated as hidden."""
    program = require_program("chromium", package="chromium")
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    flags = [*FLAGS, SOON, "--remote-debugging-pipe", "--no-first-run", f"--user-data-dir={folder}"]
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", f'exec "$@" {TALK[0]}<&{theirs_in} {TALK[1]}>&{theirs_out}', "bash",
        program, *flags, pass_fds=(theirs_in, theirs_out), stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    reader = asyncio.StreamReader(limit=2**24)
    with os.fdopen(ours_in, "rb") as answers, os.fdopen(ours_out, "wb"):
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), answers
        )
        opened = Window(reader, ours_out)
        listening = asyncio.create_task(opened.listen())
        try:
            yield opened
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            process.terminate()
            await process.wait()
            transport.close()

"""Worker processes that come and go."""

import asyncio
import random
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ROOT = Path(__file__).parents[2]


class Fleet:
    """So many workers of one queue; whichever dies is replaced."""

    def __init__(
        self, url: str, queue: str, *, size: int, max_stalled: int = 1000, concurrency: int = 8
    ) -> None:
        self._args = (url, queue, str(max_stalled), str(concurrency))
        self._size = size
        self._running: list[tuple[Process, IO[bytes]]] = []
        self.last_words: list[str] = []
        """What workers said that ended without having been killed."""

    async def refill(self) -> int:
        """Replace those that have died; how many had."""
        dead = [each for each in self._running if each[0].returncode is not None]
        for process, words in dead:
            self._running.remove((process, words))
            self._listen(process, words)
        while len(self._running) < self._size:
            words = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.chaos.worker", *self._args),
                cwd=ROOT,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=words,
            )
            self._running.append((process, words))
        return len(dead)

    async def kill_one(self) -> None:
        """End one at random, as a crash would."""
        process, _ = random.choice(self._running)
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def freeze_one(self, seconds: float) -> None:
        """Stop one at random for longer than its leases last; then it goes on as if nothing was."""
        process, _ = random.choice(self._running)
        if process.returncode is None:
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Ask all of them to stop, and wait until they have."""
        for process, _ in self._running:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        for process, words in self._running:
            await process.wait()
            self._listen(process, words)
        self._running.clear()

    def _listen(self, process: Process, words: IO[bytes]) -> None:
        with words:
            # Terminated by the signal itself is one that had not even begun.
            if process.returncode not in (0, -signal.SIGKILL, -signal.SIGTERM):
                words.seek(0)
                self.last_words.append(words.read().decode(errors="replace")[-2000:])

    async def __aenter__(self) -> Self:
        await self.refill()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process, words in self._running:
            if process.returncode is None:
                process.kill()
            await process.wait()
            words.close()

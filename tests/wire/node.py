"""Node's BullMQ, driven from a test through a pipe.

A `NodeProcess` runs one BullMQ release; a `NodePeer` is what one test has open in it, on one
database. So the tests of a session share a process, and each still starts with nothing open.
"""

import asyncio
import itertools
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeAlias

from tests.support.patience import LIMIT_S
from tests.wire.install import find_node, installed
from waystation.core import codec

Json: TypeAlias = Any

Steps: TypeAlias = Sequence[Sequence[Json]]
"""What a worker does with a job (see handlers.mjs): `[["log", "hi"], ["return", 1]]`."""

Entry: TypeAlias = dict[str, Json]
"""One thing that happened: its `type`, the instant `at`, and its own fields."""

PEER = Path(__file__).with_name("peer.mjs")
LONGEST_LINE = 256 * 1024 * 1024
ANSWER_WITHIN = LIMIT_S
CLOSE_WITHIN = LIMIT_S


class NodeError(Exception):
    """Node threw; `name` is the class of what it threw."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class NodeGone(Exception):
    """The Node process ended before it answered."""


@asynccontextmanager
async def node(version: str, url: str) -> AsyncGenerator["NodePeer"]:
    """A Node process of one's own, which a test may kill."""
    async with await NodeProcess.start(version) as process, NodePeer(process, url) as peer:
        yield peer


class NodeProcess:
    """One running BullMQ release; commands go in, answers come back in any order."""

    def __init__(self, version: str, process: Process) -> None:
        self.version = version
        self._process = process
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Json]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, version: str) -> Self:
        """Start Node with this release, installing it when it is not there yet."""
        folder = await asyncio.to_thread(installed, version)
        program = (await asyncio.to_thread(find_node)).program
        process = await asyncio.create_subprocess_exec(
            program, str(PEER), cwd=folder, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE
        )
        return cls(version, process)

    @property
    def running(self) -> bool:
        """Whether it can still answer."""
        return not self._reading.done()

    def send(self, command: str, **args: Json) -> "asyncio.Future[Json]":
        """Give a command without waiting; the future is its answer."""
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_excuse)
        if not self.running:
            answer.set_exception(NodeGone(f"Node has ended, so it cannot {command}"))
            return answer
        number = next(self._ids)
        self._pending[number] = answer
        line = codec.encode_as_node({"id": number, "command": command, **args})
        # Newer Nodes also end a line at these two.
        for mark in ("\u2028", "\u2029"):
            line = line.replace(mark.encode(), b"\\u%04x" % ord(mark))
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        return answer

    async def kill(self) -> None:
        """End it as a crash would: nothing is closed, no lock is given back."""
        if self._process.returncode is None:
            self._process.kill()
        await self._ended()

    async def close(self) -> None:
        """Let it close what is open, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), CLOSE_WITHIN)
        except TimeoutError:
            self._process.kill()
        await self._ended()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ended(self) -> None:
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._settle(codec.decode(line))
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(NodeGone("Node ended without an answer"))
        self._pending.clear()

    def _settle(self, message: Entry) -> None:
        answer = self._pending.pop(message["id"])
        if answer.done():
            return
        if error := message.get("error"):
            answer.set_exception(NodeError(error["name"], error["message"]))
        else:
            answer.set_result(message["result"])


class NodePeer:
    """What one test has open in a Node process, all of it on one database."""

    _handles = itertools.count(1)

    def __init__(self, process: NodeProcess, url: str) -> None:
        self.process = process
        self.url = url
        self._opened: list[Remote] = []

    def queue(self, name: str, /, **options: Json) -> "Remote":
        """Open a `Queue`; the options are BullMQ's own, in its spelling."""
        return self._open("queue", name, options)

    def worker(
        self,
        queue: str,
        /,
        handlers: Mapping[str, Steps] | None = None,
        *,
        backoff: Sequence[int] | None = None,
        **options: Json,
    ) -> "Remote":
        """Open a `Worker` with steps by job name (`*` for any), and waits for custom backoffs."""
        return self._open("worker", queue, options, handlers=handlers or {}, backoff=backoff)

    def events(self, name: str, /, **options: Json) -> "Remote":
        """Open a `QueueEvents` that records every entry from the stream's start."""
        return self._open("events", name, options)

    def producer(self, name: str, /, **options: Json) -> "Remote":
        """Open a `QueueEventsProducer`."""
        return self._open("producer", name, options)

    def flow(self, **options: Json) -> "Remote":
        """Open a `FlowProducer`."""
        return self._open("flow", "", options)

    async def kill(self) -> None:
        """End the whole process at once, as a crash would."""
        await self.process.kill()

    async def close(self) -> None:
        """Close everything opened here, without waiting for jobs that run."""
        while self._opened and self.process.running:
            await self._opened.pop().close(force=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open(self, kind: str, name: str, options: Mapping[str, Json], **more: Json) -> "Remote":
        handle = f"{kind} {name} {next(self._handles)}"
        opening = self.process.send(
            "open", handle=handle, kind=kind, name=name, url=self.url, options=options, **more
        )
        remote = Remote(self.process, handle, opening)
        self._opened.append(remote)
        return remote


class Remote:
    """A BullMQ object inside Node."""

    def __init__(self, process: NodeProcess, handle: str, opening: "asyncio.Future[Json]") -> None:
        self._process = process
        self._handle = handle
        self._opening = opening
        self._closed = False

    async def ready(self) -> Self:
        """Return when it is connected."""
        await asyncio.shield(self._opening)
        return self

    async def call(self, method: str, *args: Json) -> Json:
        """Call a method (or read a property) and bring back what it gives."""
        return await self._send("call", path=_path([(method, *args)]))

    async def call_job(self, job_id: str, method: str, *args: Json) -> Json:
        """Call a method of one job of this queue."""
        return await self._send("call", path=_path([("getJob", job_id), (method, *args)]))

    async def poll(self, method: str, *args: Json, gives: Json, within: float = LIMIT_S) -> Json:
        """Ask until the answer matches: objects by the fields named, a list as "one of these"."""
        return await self._send(
            "poll",
            path=_path([(method, *args)]),
            match=gives,
            timeoutMs=round(within * 1000),
            patience=within,
        )

    async def journal(self, **match: Json) -> list[Entry]:
        """Everything that happened here so far, or only what has these fields."""
        entries: list[Entry] = await self._send("journal")
        return [entry for entry in entries if match.items() <= entry.items()]

    async def until(
        self, type: str | Sequence[str], *, count: int = 1, within: float = LIMIT_S, **match: Json
    ) -> list[Entry]:
        """Wait until this has happened `count` times; the entries that say so."""
        return await self._send(
            "until",
            match={"type": type, **match},
            count=count,
            timeoutMs=round(within * 1000),
            patience=within,
        )

    async def close(self, *, force: bool = False) -> None:
        """Close it; a worker waits for its jobs unless forced."""
        if not self._closed:
            self._closed = True
            # Not after the opening, which never ends when there is no server to be found.
            async with asyncio.timeout(ANSWER_WITHIN):
                await self._process.send("close", handle=self._handle, force=force)

    def as_argument(self) -> Json:
        """How to hand this object to a method of another one."""
        return {"$handle": self._handle}

    async def _send(self, command: str, *, patience: float = 0.0, **args: Json) -> Json:
        async with asyncio.timeout(ANSWER_WITHIN + patience):
            await asyncio.shield(self._opening)
            return await self._process.send(command, handle=self._handle, **args)


def _excuse(answer: "asyncio.Future[Json]") -> None:
    """An error that nobody waited for, as of an object never used, is no fault of the test's."""
    if not answer.cancelled():
        answer.exception()


def _path(calls: Sequence[tuple[Json, ...]]) -> list[list[Json]]:
    """Calls as they travel; an argument may be another opened object."""
    return [[_argument(part) for part in call] for call in calls]


def _argument(value: Json) -> Json:
    return value.as_argument() if isinstance(value, Remote) else value

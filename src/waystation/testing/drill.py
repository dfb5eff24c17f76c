"""Drills: handlers run under kills, double deliveries, lost replies and late acknowledgements.

A drill names a handler and the data of a job. The job is first run undisturbed, and then with one
fault at a time, each time on an empty server and in an empty directory. Whatever the fault, the job
must end as it did, with the same effects.
"""

import asyncio
import inspect
import os
import sys
import tempfile
import threading
import traceback
from array import array
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, cast

from redis import Redis

from waystation.bullmq import NewJob, Queue
from waystation.bullmq.job import Job
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.source import BullSource, ClaimOptions
from waystation.bullmq.worker import prepare
from waystation.core.clock import SERVER_TIME
from waystation.core.errors import StoreUnreachable
from waystation.core.outcome import Done, Failed, Outcome
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.store.connection import Store, connect
from waystation.core.store.script import LuaScript
from waystation.tasks.dispatch import Dispatcher
from waystation.tasks.task import Call, Task, tasks_of

QUEUE = "drill"
_MOST_KILLS = 25
"""Lines at which a handler is killed; of a longer one some are chosen."""
_MOST_REPLIES = 10
_MOST_RUNS = 5
_ROUNDS = 50
_KILLED = 9
_NOTHING_TO_DO = 3
_LATE = b"late"


class Drill(NamedTuple):
    """A handler, and a job for it."""

    handler: Callable[..., Any] | Call[Any]
    """A handler, a task, or a call of one: `send.bind(to="ada")`."""
    data: Any = None
    """The job's data; of a task its arguments."""
    name: str | None = None
    """What the report calls it; None means the handler's own name."""
    effects: Callable[[], Any] | None = None
    """Returns what the handler has done to the world, in a form that can be compared; called in the
    directory of the run. None looks at the files there and at what lies in the store."""
    setup: Callable[[], Any] | None = None
    """Prepares the directory, or the world, before each run."""
    attempts: int = 10

    @property
    def title(self) -> str:
        """What the report calls it."""
        return self.name or getattr(self.function, "__name__", "handler")

    @property
    def function(self) -> Callable[..., Any]:
        """What is run."""
        return self.handler.task.function if isinstance(self.handler, Call) else self.handler

    @property
    def call(self) -> Call[Any] | None:
        """The call of a task; None for a handler that takes the job."""
        handler: Any = self.handler
        if isinstance(handler, Task):
            return cast(Task[..., Any], handler).bind(**(self.data or {}))
        return cast(Call[Any], handler) if isinstance(handler, Call) else None


class Finding(NamedTuple):
    """A fault that a handler does not survive."""

    fault: str
    wanted: Mapping[str, Any]
    """How the job ended, and what it had done, when nothing disturbed it."""
    found: Mapping[str, Any]

    def __str__(self) -> str:
        names = [each for each in {**self.wanted, **self.found} if self._differs(each)]
        return f"{self.fault}: " + "; ".join(
            f"{each}: wanted {self._said(self.wanted, each)}, found {self._said(self.found, each)}"
            for each in names
        )

    def _differs(self, name: str) -> bool:
        return self._said(self.wanted, name) != self._said(self.found, name)

    def _said(self, effects: Mapping[str, Any], name: str) -> str:
        return repr(effects[name]) if name in effects else "nothing"


class Verdict(NamedTuple):
    """What came of a drill."""

    title: str
    runs: int
    findings: list[Finding]
    completes: bool = True
    """False when the job did not even complete undisturbed, so that nothing could be found out."""

    @property
    def is_idempotent(self) -> bool:
        """True when no fault has changed what the handler did."""
        return not self.findings

    def __str__(self) -> str:
        if not self.completes:
            return "DOES NOT COMPLETE"
        return "idempotent" if self.is_idempotent else "NOT idempotent"


class Fault(NamedTuple):
    """What happens to one run of the job."""

    name: str
    run: int = 0
    """Which one: a job that sleeps runs more than once."""
    kill_at: int | None = None
    """The line, counted as they are run, before which the process dies."""
    lose_reply: int | None = None
    """The call of a script, counted as they are made, whose reply is lost."""
    loses_ack: bool = False
    """The process dies after the handler has ended, and before that is stored."""
    late_at: int | None = None
    """The line at which the process stands still until another has run the job."""


class _Counts(NamedTuple):
    """How many lines of the handler's module a process has run, and how many scripts it called."""

    lines: int
    replies: int
    places: Mapping[int, int]
    """Where in the file some of these lines are."""

    def said(self) -> bytes:
        """The same as bytes for a pipe."""
        pairs = (f"{line}:{place}" for line, place in self.places.items())
        return " ".join([str(self.lines), str(self.replies), *pairs]).encode()

    @classmethod
    def heard(cls, said: bytes) -> "_Counts":
        """The counts that a process reported; zeros when it was killed."""
        lines, replies, *pairs = said.split() or (b"0", b"0")
        places = (pair.split(b":") for pair in pairs)
        return cls(int(lines), int(replies), {int(line): int(place) for line, place in places})


class _Ended(NamedTuple):
    """How the job ended."""

    state: str
    result: Any = None
    reason: str | None = None


class _Seen(NamedTuple):
    """What an observed run has done, and what each of its processes has run."""

    effects: dict[str, Any]
    counts: list[_Counts]
    ended: _Ended


_NONE = Fault("none", run=-1)


def run_drill(drill: Drill, url: str, *, goes_on: bool = False) -> Verdict:
    """Run one drill on the server at `url`, which is emptied again and again.

    It ends with the first fault that the handler does not survive, unless it `goes_on`.
    """
    first = _run(drill, url, Fault("undisturbed"))
    if first.ended.state != "completed":
        wanted, found = {"state": "completed"}, {"state": first.ended.state}
        if first.ended.reason is not None:
            found["reason"] = first.ended.reason
        finding = Finding("undisturbed", wanted, found)
        return Verdict(drill.title, 1, [finding], completes=False)
    again = _run(drill, url, Fault("undisturbed"))
    if first.effects != again.effects:
        sentence = "two undisturbed runs differ, so effects= has to leave out what differs"
        return Verdict(drill.title, 2, [Finding(sentence, first.effects, again.effects)])
    findings: list[Finding] = []
    runs = 2
    for fault in _faults(first, Path(_file_of(drill)).name):
        seen = _run(drill, url, fault)
        runs += 1
        if seen.effects != first.effects:
            findings.append(Finding(fault.name, first.effects, seen.effects))
            if not goes_on:
                break
    return Verdict(drill.title, runs, findings)


def _faults(seen: _Seen, file: str) -> Iterator[Fault]:
    for run, (lines, replies, places) in enumerate(seen.counts[:_MOST_RUNS]):
        when = f" in run {run + 1}" if len(seen.counts) > 1 else ""
        yield Fault(f"delivered twice, the acknowledgement was lost{when}", run, loses_ack=True)
        for line in _some(lines, _MOST_KILLS):
            yield Fault(f"killed before {file}:{places[line]}{when}", run, kill_at=line)
        for call in _some(replies, _MOST_REPLIES):
            yield Fault(f"the store's reply {call} was lost{when}", run, lose_reply=call)
        for line in _late(lines):
            at = f"{file}:{places[line]}{when}"
            yield Fault(f"overtaken by another worker at {at}", run, late_at=line)


def _late(lines: int) -> Sequence[int]:
    return sorted({max(lines // 2, 1), lines}) if lines else ()


def _some(many: int, most: int) -> Sequence[int]:
    if many <= most:
        return range(1, many + 1)
    return sorted({1 + round(n * (many - 1) / (most - 1)) for n in range(most)})


def _file_of(drill: Drill) -> str:
    """The file of the handler, whose lines are counted."""
    return inspect.getsourcefile(inspect.unwrap(drill.function)) or ""


# One run


def _run(drill: Drill, url: str, fault: Fault) -> _Seen:
    redis = Redis.from_url(url)
    redis.flushall()
    with tempfile.TemporaryDirectory(prefix="drill-") as folder:
        before = Path.cwd()
        os.chdir(folder)
        os.environ["WAYSTATION_STORE__URL"] = url
        try:
            if drill.setup is not None:
                drill.setup()
            asyncio.run(_add(url, drill))
            counts = _played(drill, url, redis, fault)
            ended = asyncio.run(_end(url))
            effects = {"effects": drill.effects()} if drill.effects else _files() | _store(redis)
        finally:
            os.chdir(before)
            redis.close()
    return _Seen({"state": ended.state, "result": ended.result} | effects, counts, ended)


def _played(drill: Drill, url: str, redis: "Redis", fault: Fault) -> list[_Counts]:
    """Run the job in one process after the other until it has ended; what each of them has run."""
    counts: list[_Counts] = []
    for number in range(_ROUNDS):
        asyncio.run(_recover(url))
        is_disturbed = number == fault.run
        child = _Child(drill, url, fault if is_disturbed else _NONE)
        if is_disturbed and fault.late_at is not None:
            # It stands still and loses the lock; another process runs the job.
            child.until_late()
            _lose_locks(redis)
            asyncio.run(_recover(url))
            _Child(drill, url, _NONE).wait()
        if child.wait() == _NOTHING_TO_DO:
            break
        counts.append(child.counts())
        _lose_locks(redis)
    return counts


class _Child:
    """A process that claims the job and runs the handler once, with its fault."""

    def __init__(self, drill: Drill, url: str, fault: Fault) -> None:
        self._reports, reports = os.pipe()
        waits, self._may_go_on = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._said = b""
        self.pid = os.fork()
        if self.pid:
            os.close(reports)
            os.close(waits)
            return
        code = 1
        try:
            os.close(self._reports)
            os.close(self._may_go_on)
            tracer = _Tracer(drill, fault, reports, waits)
            code = asyncio.run(_attempt(url, drill, fault, tracer))
            os.write(reports, tracer.counts().said())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def until_late(self) -> None:
        """Return when it stands still, or has ended."""
        self._said += os.read(self._reports, len(_LATE))

    def wait(self) -> int:
        """Let it go on, and return its exit code when it has ended."""
        os.close(self._may_go_on)
        while said := os.read(self._reports, 100):
            self._said += said
        os.close(self._reports)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def counts(self) -> _Counts:
        """What it has run; nothing when it was killed."""
        return _Counts.heard(self._said.removeprefix(_LATE))


class _Tracer:
    """Counts the lines of the handler's module and the scripts it calls, and lets faults happen."""

    def __init__(self, drill: Drill, fault: Fault, reports: int, waits: int) -> None:
        self.lines = 0
        self.replies = 0
        self._fault = fault
        self._file = _file_of(drill)
        self._places = array("I")
        self._reports = reports
        self._waits = waits

    def counts(self) -> _Counts:
        """What was run, with the places that the report may name."""
        named = {*_some(self.lines, _MOST_KILLS), *_late(self.lines)}
        places = {line: self._places[line - 1] for line in sorted(named)}
        return _Counts(self.lines, self.replies, places)

    def start(self) -> None:
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        make: Any = vars(LuaScript)["_call"]
        tracer = self

        async def call(script: Any, args: Any, client: Any, keys: Any = None) -> Any:
            answer = await make(script, args, client, keys)
            tracer.replies += 1
            if tracer.replies == tracer._fault.lose_reply:
                raise StoreUnreachable("the reply was lost")
            return answer

        vars_of: Any = LuaScript
        vars_of._call = call
        self._restore = lambda: setattr(LuaScript, "_call", make)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)  # pyright: ignore[reportArgumentType]
        self._restore()

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename == self._file else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.lines += 1
            self._places.append(frame.f_lineno)
            if self.lines == self._fault.kill_at:
                os._exit(_KILLED)
            if self.lines == self._fault.late_at:
                os.write(self._reports, _LATE)
                os.read(self._waits, 1)
        return self._line


async def _attempt(url: str, drill: Drill, fault: Fault, tracer: _Tracer) -> int:
    async with await connect(url) as store:
        call = drill.call
        sealing = None if call is None else tasks_of(call.task).sealing
        options = ClaimOptions(worker="drill")
        source = BullSource(store, QueueKeys(QUEUE), options, sealing=sealing)
        claims = (await source.settle([], claim=1)).claims
        if not claims:
            return _NOTHING_TO_DO
        outcome = await _outcome(drill, store, claims[0], tracer)
        if fault.loses_ack:
            return _KILLED
        await source.settle([Settled(claims[0], outcome)], claim=0)
    return 0


async def _outcome(drill: Drill, store: Store, claim: Claim[Job], tracer: _Tracer) -> Outcome:
    await prepare(claim.work, ClaimOptions(worker="drill"))
    async with _handler(drill, store) as handler:
        tracer.start()
        try:
            return Done(await handler.run(claim.work))
        except Exception as error:
            return Failed(error)
        finally:
            tracer.stop()


@asynccontextmanager
async def _handler(drill: Drill, store: Store) -> AsyncGenerator[Handler[Any]]:
    """What runs the job, as in a worker."""
    call = drill.call
    if call is None:
        handler = handler_of(drill.function)
        try:
            yield handler
        finally:
            await handler.close()
        return
    tasks = tasks_of(call.task)
    dispatcher = Dispatcher(tasks, {call.task.name: call.task})
    async with tasks.connected(store):
        await dispatcher.open(store)
        try:
            yield dispatcher
        finally:
            await dispatcher.leave(store)
            await dispatcher.close()


async def _add(url: str, drill: Drill) -> None:
    new = NewJob(drill.title, {} if drill.data is None else drill.data)
    if (call := drill.call) is not None:
        new = call.new_job()
    async with Queue(QUEUE, url) as queue:
        await queue.add(new.name, new.data, job_id="drill", attempts=drill.attempts, backoff=None)


async def _recover(url: str) -> None:
    """Let a job run again whose worker has gone, or that waits for its time."""
    async with await connect(url) as store:
        keys = QueueKeys(QUEUE)
        for _ in range(2):
            await store.ask("DEL", keys.stalled_check)
            await scripts.recover_stalled(
                store.hot, keys, now=SERVER_TIME, interval_ms=1, max_stalled=_ROUNDS, most=_ROUNDS
            )
        await _promote(store)


async def _promote(store: Store) -> None:
    async with Queue(QUEUE, store) as queue:
        await queue.promote_all()


def _lose_locks(redis: "Redis") -> None:
    redis.delete(f"bull:{QUEUE}:drill:lock")


async def _end(url: str) -> _Ended:
    async with Queue(QUEUE, url) as queue:
        job = await queue.get_job("drill")
        if job is None:
            return _Ended("gone")
        return _Ended(await job.state(), job.result, job.failed_reason)


# What a handler has done


def _files() -> dict[str, str]:
    return {
        f"file {path}": path.read_text(errors="replace")
        for path in sorted(Path().rglob("*"))
        if path.is_file()
    }


def _store(redis: Any) -> dict[str, Any]:
    """Values by key; of queues only the jobs, by their names and data."""
    found: dict[str, Any] = {}
    for raw in sorted(redis.scan_iter()):
        key = raw.decode("utf-8", "replace")
        if key.startswith(f"bull:{QUEUE}:"):
            continue
        value = _value(redis, raw)
        if not key.startswith("bull:"):
            found[f"key {key}"] = value
        elif isinstance(value, dict) and b"name" in value:
            job = f"a job {value[b'name'].decode()} {value.get(b'data', b'').decode()}"
            queue = "queue " + key.split(":")[1]
            found[queue] = sorted([*found.get(queue, []), job])
    return found


def _value(redis: Any, key: bytes) -> Any:
    match redis.type(key):
        case b"string":
            return redis.get(key)
        case b"list":
            return redis.lrange(key, 0, -1)
        case b"set":
            return sorted(redis.smembers(key))
        case b"zset":
            return redis.zrange(key, 0, -1)
        case b"hash":
            return redis.hgetall(key)
        case _:
            return [fields for _, fields in redis.xrange(key)]

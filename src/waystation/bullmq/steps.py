"""Steps of a job: parts of a handler that are done once, however often the job is tried.

What a step returned is stored in the job itself, by a script that checks the lock. When the handler
runs again, such as after a crash, the step returns that without being run. A job that sleeps or
waits for a signal leaves its worker, and its handler runs again when the time has come.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from waystation.bullmq.fields import FAILING, JobFields, done_steps, emitted, known, remember
from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.options import JobOptions, Parent
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis import children, ends, packing, scripts
from waystation.bullmq.redis.commands import refusal
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.packing import NewJob, Packer
from waystation.bullmq.redis.replies import Stepped
from waystation.bullmq.step_rules import (
    UNDOING,
    as_promised,
    as_wanted,
    called,
    check_promise,
    checked_name,
    checked_step,
    child_id,
    must_come,
    name_of,
    not_inside,
    refuse_unchildlike,
)
from waystation.bullmq.terms import instant_ms
from waystation.core import codec
from waystation.core.clock import SERVER_TIME
from waystation.core.durations import Duration, milliseconds
from waystation.core.errors import (
    JobDelayed,
    JobFailed,
    JobWaitingForChildren,
    LeaseLost,
    NotFound,
    TimedOut,
    UnreadableData,
    Unrecoverable,
    WaystationError,
    WrongState,
)
from waystation.core.store.commands import ask_all, server_ms
from waystation.core.store.reconnect import reconnecting, waiting
from waystation.core.store.script import Client

KEPT_PARTS_MS = 7 * 24 * 3_600_000
"""How long the output of a job is kept after its last part; readers that come later find none."""
_LOOK_AGAIN_MS = 365 * 24 * 3_600_000
_SOON_MS = 5000
_INSIST_S = 5.0
_ALL_UNDONE = "undo *"
_NOTHING_UNDONE = "undo -"
_inside: ContextVar[tuple["Steps", ...]] = ContextVar("inside", default=())
"""The steps that this code is part of."""


class Undo(NamedTuple):
    """What undoes a step if the job fails for good."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Steps:
    """The steps of one attempt. Internal."""

    def __init__(
        self, job: JobFields, client: Client, keys: QueueKeys, sealing: Sealing | None
    ) -> None:
        self._job = job
        self._sealing = sealing or Sealing()
        self._client = client
        self._keys = keys
        self._seen: Counter[tuple[str, str]] = Counter()
        self._parts = 0
        self._under_way: set[asyncio.Future[None]] = set()
        self._leaving: asyncio.Future[None] | None = None
        self._left = ""
        self._noting: asyncio.Future[None] | None = None
        self.undo: list[Undo] = []
        self.cannot_undo = ""
        """Why nothing can be undone, where that is so."""
        self.changed = ""
        """What has changed in the handler, so that it cannot come to where it was."""

    # Steps

    def begin(self, name: str, function: str) -> tuple[str, bytes | None]:
        """The step's own name among those of the attempt, and what it returned before."""
        step = self._numbered("step", checked_step(name))
        return step, self._done_before(step, function)

    def _done_before(self, step: str, function: str) -> bytes | None:
        done = known(self._job, b"step:" + step.encode())
        if done is None:
            self.must_go_on()
            if self._left:
                raise self.refusal(0)
            return None
        was = known(self._job, b"by:" + step.encode())
        if was is not None and was != function.encode():
            before = was.decode("utf-8", "replace")
            self.changed = (
                f"the step {step!r} of job {self._job.id} was {before}, and is {function} now: "
                "steps of one name keep functions and order while jobs are under way. Nothing is "
                f"undone: run a version whose function has the __name__ {before!r} there, and "
                "retry the job, which goes on where it was"
            )
            raise WrongState(self.changed)
        return done

    async def save(self, step: str, result: Any, function: str = "") -> Any:
        """Remember what a step returned; returns what is remembered."""
        plain = codec.encode_result(result, what=f"the result of step {step!r}")
        client, keys, token = self._held()
        await self.note_undos()
        value = await self._sealing.sealed_json(keys.name, plain)
        saved = self._accept(
            await reconnecting(
                lambda: scripts.save_step(
                    client, keys, id=self._job.id, token=token, step=step, by=function, value=value
                )
            )
        )
        name = step.encode()
        remember(
            self._job,
            {b"step:" + name: saved.value, b"by:" + name: function.encode(), b"stc": b"0"},
        )
        if saved.value == value:
            return codec.decode(plain)
        return await self.result(saved.value)

    async def run(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a step that was not done before."""
        # Numbered before anything is waited for, so that the order is that of the calls.
        step = self._numbered("step", checked_step(name))
        by = name_of(function)
        while self._leaving is not None and self not in _inside.get():
            await asyncio.wait([self._leaving])
        if (done := self._done_before(step, by)) is not None:
            return as_promised(function, await self.result(done))
        check_promise(step, function)
        under_way = asyncio.get_running_loop().create_future()
        self._under_way.add(under_way)
        inside = _inside.set((*_inside.get(), self))
        try:
            result = await self.save(step, await called(function, *args, **kwargs), by)
        finally:
            _inside.reset(inside)
            self._under_way.discard(under_way)
            under_way.set_result(None)
        return as_promised(function, result)

    async def result(self, done: bytes) -> Any:
        """What a step returned, from what is remembered of it."""
        return await self._sealing.opened_json(done)

    # Waiting

    async def sleep(self, duration: Duration = 0, *, until: datetime | None = None) -> None:
        """Leave the worker for a while."""
        step = self._numbered("sleep", "sleep")
        if known(self._job, b"wait:" + step.encode()) is not None:
            return
        due_ms: str | int = ""
        wait_ms = 0
        if until is not None:
            due_ms = instant_ms("until", until)
            must_come(due_ms, "the end of a sleep")
        else:
            wait_ms = milliseconds(duration, "the duration of a sleep")
            must_come(time.time() * 1000 + wait_ms, "the end of a sleep")
        async with self._alone("sleep"):
            paused = await self._pause(step, "", due_ms=due_ms, wait_ms=wait_ms)
            if paused.code == 0:
                self._left = "JobDelayed"
                raise JobDelayed(f"job {self._job.id} sleeps")

    async def wait_for(self, signal: str, timeout: Duration | None, kind: Any = Any) -> Any:
        """Leave the worker until a signal comes; raises `TimedOut` after `timeout`."""
        wait = self._numbered("wait", checked_name("signal", signal))
        mark = known(self._job, b"take:" + wait.encode()) or b""
        if mark.startswith(b"="):
            came = known(self._job, b"signal:%s#%s" % (signal.encode(), mark[1:]))
            if came is not None:
                return self._signalled(signal, kind, await self._sealing.opened_json(came))
        wait_ms = _LOOK_AGAIN_MS if timeout is None else milliseconds(timeout, "timeout")
        must_come(time.time() * 1000 + wait_ms, "the timeout of a wait")
        if mark == b"over":
            raise TimedOut(f"the signal {wait!r} did not come in time")
        async with self._alone("wait_for"):
            endless = timeout is None
            paused = await self._pause(wait, signal, due_ms="", wait_ms=wait_ms, endless=endless)
            match paused.code:
                case 0:
                    self._left = "JobDelayed"
                    raise JobDelayed(f"job {self._job.id} waits for the signal {signal!r}")
                case 1 if not paused.value:
                    raise UnreadableData(f"the signal {wait!r} of job {self._job.id} is not stored")
                case 1:
                    pass
                case _:
                    raise TimedOut(f"the signal {wait!r} did not come in time")
        return self._signalled(signal, kind, await self._sealing.opened_json(paused.value))

    def _signalled(self, signal: str, kind: Any, data: Any) -> Any:
        return as_wanted(f"the signal {signal!r}", data, kind)

    async def _pause(
        self, wait: str, signal: str, *, due_ms: str | int, wait_ms: int, endless: bool = False
    ) -> Stepped:
        client, keys, token = self._held()
        deadline_ms = self._deadline_ms()
        return self._accept(
            await reconnecting(
                lambda: scripts.pause_step(
                    client,
                    keys,
                    id=self._job.id,
                    token=token,
                    wait=wait,
                    signal=signal,
                    due_ms=due_ms,
                    wait_ms=wait_ms,
                    endless=int(endless),
                    deadline_ms="" if deadline_ms is None else deadline_ms,
                )
            )
        )

    # Children

    async def run_child(
        self, name: str, data: Any, queue: str | None, given: JobKeywords, kind: Any = Any
    ) -> Any:
        """Add a child once, leave the worker until it has ended, and return its result."""
        client, keys, token = self._held()
        refuse_unchildlike(given)
        step = self._numbered("child", checked_name("child", name))
        home = QueueKeys(queue, prefix=keys.prefix) if queue else keys
        id = await self._former_child(home, step, name) or child_id(self._job, step)
        key = home.base + id
        ours = keys.of(self._job.id)
        while True:
            done, failed = await ask_all(
                client, ("HGET", ours.processed, key), ("HGET", ours.ignored, key)
            )
            if done is not None:
                result = await self._sealing.opened_soon(codec.decode_or_text(done))
                return as_wanted(f"the result of the child {name!r}", result, kind)
            if failed is not None:
                raise JobFailed(failed.decode("utf-8", "replace"))
            async with self._alone("run_child"):
                await self._make_way(home, id)
                await self._add_child(home, id, NewJob(name, data), given)
                if await children.wait_for_children(
                    client, keys, self._job.id, token, child=key, deadline_ms=self._deadline_ms()
                ):
                    self._left = "JobWaitingForChildren"
                    raise JobWaitingForChildren(f"job {self._job.id} waits for {name!r}")

    async def _former_child(self, home: QueueKeys, step: str, name: str) -> str:
        """The id of this child if an earlier version has added it; empty if not."""
        id = f"{self._job.id.replace(':', '.')}-{step.replace(':', '.')}"
        [found] = await ask_all(self._client, ("HMGET", home.of(id).job, "parentKey", "name"))
        is_ours = found == [self._keys.of(self._job.id).job.encode(), name.encode()]
        return id if is_ours and known(self._job, b"gen") is None else ""

    async def _make_way(self, home: QueueKeys, id: str) -> None:
        """Remove what an earlier job of the parent's id has left under the id of a child.

        Its result would be taken for that of the child. Anybody else's job is left alone.
        """
        job, ours = home.of(id).job, self._keys.of(self._job.id)
        found, parent, is_ours = await ask_all(
            self._client,
            ("EXISTS", job),
            ("HGET", job, "parentKey"),
            ("SISMEMBER", ours.dependencies, job),
        )
        if is_ours or not found:
            return
        if parent != ours.job.encode():
            raise WrongState(
                f"job {id} of the queue {home.name} is no child of job {self._job.id}, but has the "
                "id of one: remove it, and add it under another id"
            )
        if not await ends.remove_job(self._client, home, id, remove_children=True):
            await self._come_back(f"job {id}, which an earlier job {self._job.id} has left, to end")

    async def _come_back(self, awaited: str) -> NoReturn:
        """Leave the worker for a moment."""
        client, keys, token = self._held()
        due_ms = await server_ms(client) + _SOON_MS
        code = await scripts.move_to_delayed(client, keys, id=self._job.id, token=token, due=due_ms)
        if code < 0:
            raise self.refusal(code)
        self._left = "JobDelayed"
        raise JobDelayed(f"job {self._job.id} waits for {awaited}")

    async def _add_child(self, home: QueueKeys, id: str, new: NewJob, given: JobKeywords) -> None:
        own = JobKeywords(
            job_id=id,
            parent=Parent(self._job.id, self._keys.qualified),
            ignore_dependency_on_failure=True,
        )
        options = packing.merged(None, given, JobOptions())
        options = packing.merged(options, own, options)
        jobs = [new]
        if self._sealing.seals:
            jobs = await self._sealing.jobs(home.name, jobs, options)
        packed = Packer(options, codec.PAYLOAD_LIMIT).pack(jobs)
        [added] = await scripts.add(self._client, home, now=SERVER_TIME, jobs=list(packed[0]))
        if isinstance(added, int):
            raise refusal(added, id)

    # Output

    async def emit(self, data: Any) -> int:
        """Append a part to the job's output, which an earlier attempt may have done."""
        self._parts += 1
        if self._parts <= (emitted(self._job)):
            return self._parts
        raw, number = codec.encode_as_node(data), self._parts
        codec.check_size(len(raw), what="Output part")
        client, keys, token = self._held()
        code = await reconnecting(
            lambda: scripts.emit_part(
                client,
                keys.of(self._job.id),
                token=token,
                number=number,
                data=raw,
                keep_ms=KEPT_PARTS_MS,
            )
        )
        if code < 0:
            raise self.refusal(code)
        return number

    # Undoing

    def on_failure(self, undo: Undo) -> None:
        """Call a function if the job fails for good."""
        if self.cannot_undo:
            raise WrongState(self.cannot_undo)
        self.undo.append(undo)
        if known(self._job, FAILING) is None:
            # Now, because a worker that dies before its next call would leave no word of it.
            self._noting = asyncio.ensure_future(self._note_once())
        elif 0 < self._to_undo() <= len(self.undo) and not self._steps_to_come():
            # Whatever stopped the handler then comes after this.
            self.must_go_on()

    async def note_undos(self) -> None:
        """Remember how much there is to undo, which a later attempt may not come to."""
        if self._noting is not None:
            await asyncio.wait([self._noting])
        if len(self.undo) > self._to_undo() and known(self._job, FAILING) is None:
            await reconnecting(self._note)

    async def _note(self) -> None:
        client, keys, token = self._held()
        given = len(self.undo)
        noted = await scripts.note_undos(client, keys.of(self._job.id), token=token, undos=given)
        if noted > 0:
            remember(self._job, {b"given": b"%d" % noted})

    async def _note_once(self) -> None:
        with suppress(WaystationError):
            await self._note()

    def _to_undo(self) -> int:
        """How many functions any attempt is known to have given."""
        return max(int(known(self._job, field) or 0) for field in (b"undos", b"given"))

    def has_undo(self) -> bool:
        """True when something has to be undone should the job fail for good, or may have to."""
        # A handler that cannot come to where it was would leave some of it out, and start anew.
        if self.changed:
            return False
        return bool(self.undo or self._to_undo() or self._may_have_more())

    def _may_have_more(self) -> bool:
        """True when an attempt was cut off, and this one has not come to what that has done."""
        was_cut = known(self._job, b"cut") is not None and not self.cannot_undo
        return was_cut and bool(self._steps_to_come())

    async def mark_failing(self, reason: str, stacktrace: bytes) -> None:
        """Let the job only be undone from now on, by whichever worker gets it next."""
        client, keys, token = self._held()
        marked = await reconnecting(
            lambda: scripts.mark_failing(
                client,
                keys.of(self._job.id),
                token=token,
                reason=reason,
                stacktrace=stacktrace,
                undos=len(self.undo),
            )
        )
        remember(self._job, {FAILING: self._accept(marked).value})

    async def unwind(self) -> str:
        """Undo what was done, the newest first, each once; nothing when some of it is missing.

        Returns what is in doubt, which nobody can know.
        """
        found, many = len(self.undo), self._to_undo()
        doubt = self._doubt() if self._may_have_more() else ""
        if found < many or (doubt and found):
            # The newest comes first, and a job that is undone would start anew.
            came = f"its handler gave on_failure {found} of {many} functions"
            came = came if found < many else doubt
            raise Unrecoverable(
                f"nothing of job {self._job.id} was undone: {came} when it ran again, before it "
                "ended or its time was over; retry the job to try again"
            )
        for each in reversed(self.undo):
            step = self._numbered("undo", f"{UNDOING}{each.name}")
            if known(self._job, b"step:" + step.encode()) is None:
                await self.save(step, await called(each.function, *each.args, **each.kwargs))
        # A job with nothing to undo goes on where it was, should somebody retry it.
        await self.save(_ALL_UNDONE if self.undo else _NOTHING_UNDONE, True)
        return doubt

    def _doubt(self) -> str:
        return (
            f"a worker was lost after the steps {', '.join(self._steps_to_come())}, to which its "
            "handler did not come"
        )

    # Helpers

    def _numbered(self, kind: str, name: str) -> str:
        self._seen[kind, name] += 1
        many = self._seen[kind, name]
        return name if many == 1 else f"{name}#{many}"

    @asynccontextmanager
    async def _alone(self, what: str) -> AsyncGenerator[None]:
        """Let the job leave its worker: no step is under way then, and none begins meanwhile.

        One that is under way has its effect already, and would be done again if it were not stored.
        """
        if self in _inside.get():
            raise not_inside(what, self._job.id)
        while busy := [*self._under_way, *([self._leaving] if self._leaving else [])]:
            await asyncio.wait(busy)
        self.must_go_on()
        if self._left:
            raise self.refusal(0)
        self._leaving = asyncio.get_running_loop().create_future()
        try:
            await self.note_undos()
            yield
        finally:
            self._leaving.set_result(None)
            self._leaving = None

    def _steps_to_come(self) -> list[str]:
        """The steps that an earlier attempt has done, and this one has not come to."""
        done = (name for name in done_steps(self._job) if not name.startswith(UNDOING))
        parts = ((each, each.partition("#")) for each in done)
        return [each for each, (name, _, nth) in parts if self._seen["step", name] < int(nth or 1)]

    def _deadline_ms(self) -> int | None:
        return self._job.options.terms.deadline_ms(self._job.created_ms)

    def must_go_on(self) -> None:
        """Stop a handler that has come to where it was, and runs for it to be undone."""
        if (reason := known(self._job, FAILING)) is not None:
            raise Unrecoverable(reason.decode("utf-8", "replace"))

    def _held(self) -> tuple[Client, QueueKeys, str]:
        if self._job.token is None:
            raise WrongState(f"job {self._job.id} is not held by a worker here")
        return self._client, self._keys, self._job.token

    def _accept(self, stepped: Stepped) -> Stepped:
        if stepped.code < 0:
            raise self.refusal(stepped.code)
        return stepped

    def refusal(self, code: int) -> WaystationError:
        """Why a script did not take what this attempt wanted to store."""
        if not self._left:
            return refusal(code, self._job.id)
        return LeaseLost(
            f"job {self._job.id} has left this worker, because it sleeps or waits: its handler "
            f"caught {self._left}, which ends the attempt, and has to let it through"
        )


async def send_signal(
    client: Client, keys: QueueKeys, job_id: str, signal: str, data: Any, sealing: Sealing
) -> bool:
    """Send a signal to a job; False when the job has ended. Internal."""
    checked_name("signal", signal)
    call = secrets.token_hex(8)
    raw = await sealing.sealed_json(keys.name, codec.encode_as_node(data))
    codec.check_size(len(raw), what="Signal")
    code = await waiting(
        lambda: scripts.signal_job(client, keys, id=job_id, signal=signal, call=call, data=raw),
        at_most_s=_INSIST_S,
    )
    if code < 0:
        raise NotFound(f"there is no job {job_id}")
    return code == 1

"""Steps of a job: parts of a handler that are done once, however often the job is tried.

What a step returned is stored in the job itself, by a script that checks the lock. When the handler
runs again, such as after a crash, the step returns that without being run. A job that sleeps or
waits for a signal leaves its worker, and its handler runs again when the time has come.
"""

import asyncio
import inspect
import secrets
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, cast, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from waystation.bullmq.fields import FAILING, JobFields, emitted, known, remember
from waystation.bullmq.options import JobKeywords, JobOptions, Parent
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis import children, packing, scripts, step_scripts
from waystation.bullmq.redis.commands import ask_all
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.packing import NewJob, Packer
from waystation.bullmq.redis.refusals import refusal
from waystation.bullmq.redis.step_scripts import Stepped
from waystation.bullmq.terms import instant_ms
from waystation.core import codec
from waystation.core.durations import Duration, DurationKeywords, milliseconds
from waystation.core.errors import (
    InvalidInput,
    InvalidOption,
    JobDelayed,
    JobFailed,
    JobWaitingForChildren,
    LeaseLost,
    NotFound,
    TimedOut,
    Unrecoverable,
    WaystationError,
    WrongState,
)
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store.reconnect import reconnecting, waiting
from waystation.core.store.script import Client

KEPT_PARTS_MS = 7 * 24 * 3_600_000
"""How long the output of a job is kept after its last part; readers that come later find none."""
_LOOK_AGAIN_MS = 365 * 24 * 3_600_000
_CALL_SIZE = 16
_INSIST_S = 5.0
_ALL_UNDONE = "undo *"
_AS_JSON_HAS_IT = (Any, object, type(None), bool, int, float, str, list, dict)
_PROMISES: WeakKeyDictionary[Callable[..., Any], Any] = WeakKeyDictionary()
"""What functions return that have been steps."""


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
        self._seen: Counter[str] = Counter()
        self._parts = 0
        self.undo: list[Undo] = []
        self._left = ""

    # Steps

    def begin(self, name: str) -> tuple[str, bytes | None]:
        """The step's own name among those of the attempt, and what it returned before."""
        step = self._numbered(name)
        done = known(self._job, b"step:" + step.encode())
        if done is None:
            self._must_go_on()
        return step, done

    async def save(self, step: str, result: Any) -> Any:
        """Remember what a step returned; returns what is remembered."""
        plain = codec.encode_result(result, what=f"the result of step {step!r}")
        client, keys, token = self._held()
        value = await self._sealing.sealed_json(keys.name, plain)
        saved = self._accept(
            await reconnecting(
                lambda: step_scripts.save_step(
                    client,
                    keys,
                    base=keys.base,
                    id=self._job.id,
                    token=token,
                    step=step,
                    value=value,
                )
            )
        )
        remember(self._job, {b"step:" + step.encode(): saved.value, b"stc": b"0"})
        if saved.value == value:
            return codec.decode(plain)
        return await self.result(saved.value)

    async def run(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a step that was not done before."""
        step, done = self.begin(name)
        if done is not None:
            return as_promised(function, await self.result(done))
        result = await self.save(step, await called(function, *args, **kwargs))
        return as_promised(function, result)

    async def result(self, done: bytes) -> Any:
        """What a step returned, from what is remembered of it."""
        return await self._sealing.opened_json(done)

    # Waiting

    async def sleep(self, duration: Duration | datetime) -> None:
        """Leave the worker for a while."""
        step = self._numbered("sleep")
        if known(self._job, b"wait:" + step.encode()) is not None:
            return
        self._must_go_on()
        due_ms: str | int = ""
        wait_ms = 0
        if isinstance(duration, datetime):
            due_ms = instant_ms("until", duration)
        else:
            wait_ms = milliseconds(duration, "the duration of a sleep")
        paused = await self._pause(step, "", due_ms=due_ms, wait_ms=wait_ms)
        if paused.code == 0:
            self._left = "JobDelayed"
            raise JobDelayed(f"job {self._job.id} sleeps")

    async def wait_for(self, signal: str, timeout: Duration | None) -> Any:
        """Leave the worker until a signal comes; raises `TimedOut` after `timeout`."""
        signal = self._numbered(checked_name("signal", signal))
        timed_out = TimedOut(f"the signal {signal!r} did not come in time")
        if known(self._job, b"wait:" + signal.encode()) == b"over":
            raise timed_out
        if (came := known(self._job, b"signal:" + signal.encode())) is not None:
            return await self._sealing.opened_json(came[_CALL_SIZE:])
        self._must_go_on()
        wait_ms = _LOOK_AGAIN_MS if timeout is None else milliseconds(timeout, "timeout")
        paused = await self._pause(
            signal, signal, due_ms="", wait_ms=wait_ms, endless=timeout is None
        )
        match paused.code:
            case 0:
                self._left = "JobDelayed"
                raise JobDelayed(f"job {self._job.id} waits for the signal {signal!r}")
            case 1:
                return await self._sealing.opened_json(paused.value[_CALL_SIZE:])
            case _:
                raise timed_out

    async def _pause(
        self, step: str, signal: str, *, due_ms: str | int, wait_ms: int, endless: bool = False
    ) -> Stepped:
        client, keys, token = self._held()
        return self._accept(
            await reconnecting(
                lambda: step_scripts.pause_step(
                    client,
                    keys,
                    base=keys.base,
                    id=self._job.id,
                    token=token,
                    step=step,
                    signal=signal,
                    due_ms=due_ms,
                    wait_ms=wait_ms,
                    endless=int(endless),
                )
            )
        )

    # Children

    async def run_child(self, name: str, data: Any, queue: str | None, given: JobKeywords) -> Any:
        """Add a child once, leave the worker until it has ended, and return its result."""
        client, keys, token = self._held()
        step = self._numbered(name)
        home = QueueKeys(queue, prefix=keys.prefix) if queue else keys
        id = f"{self._job.id.replace(':', '.')}-{step.replace(':', '.')}"
        key = home.base + id
        ends = keys.of(self._job.id)
        done, failed = await ask_all(
            client, ("HGET", ends.processed, key), ("HGET", ends.ignored, key)
        )
        if done is not None:
            return await self._sealing.opened_soon(codec.decode_or_text(done))
        if failed is not None:
            raise JobFailed(failed.decode("utf-8", "replace"))
        self._must_go_on()
        options = packing.merged(None, given, JobOptions())
        options = packing.merged(
            options,
            {
                "job_id": id,
                "parent": Parent(self._job.id, keys.qualified),
                "ignore_dependency_on_failure": True,
            },
            options,
        )
        new = [NewJob(name, data)]
        if self._sealing.seals:
            new = await self._sealing.jobs(home.name, new, options)
        packed = Packer(options, codec.PAYLOAD_LIMIT).pack(new)
        [added] = await scripts.add(
            client, home, base=home.base, now=SERVER_TIME, jobs=list(packed[0])
        )
        if isinstance(added, int):
            raise refusal(added, id)
        if await children.wait_for_children(client, keys, self._job.id, token, child=key):
            self._left = "JobWaitingForChildren"
            raise JobWaitingForChildren(f"job {self._job.id} waits for {name!r}")
        self._seen[name] -= 1
        return await self.run_child(name, data, queue, given)

    # Output

    async def emit(self, data: Any) -> int:
        """Append a part to the job's output, which an earlier attempt may have done."""
        self._parts += 1
        if self._parts <= (emitted(self._job)):
            return self._parts
        raw, number = codec.encode_as_node(data), self._parts
        client, keys, token = self._held()
        code = await reconnecting(
            lambda: step_scripts.emit_part(
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
        self.undo.append(undo)
        many = known(self._job, b"undos")
        if many is not None and len(self.undo) >= int(many):
            # Whatever stopped the handler then comes after this.
            self._must_go_on()

    async def mark_failing(self, reason: str, stacktrace: bytes) -> None:
        """Let the job only be undone from now on, by whichever worker gets it next."""
        client, keys, token = self._held()
        marked = await reconnecting(
            lambda: step_scripts.mark_failing(
                client,
                keys.of(self._job.id),
                token=token,
                reason=reason,
                stacktrace=stacktrace,
                undos=len(self.undo),
            )
        )
        remember(self._job, {FAILING: self._accept(marked).value})

    async def unwind(self) -> None:
        """Undo what was done, the newest first, each once."""
        for each in reversed(self.undo):
            step = self._numbered(f"undo {each.name}")
            if known(self._job, b"step:" + step.encode()) is None:
                await self.save(step, await called(each.function, *each.args, **each.kwargs))
        await self.save(_ALL_UNDONE, True)

    # Helpers

    def _numbered(self, name: str) -> str:
        checked_name("step", name)
        self._seen[name] += 1
        many = self._seen[name]
        return name if many == 1 else f"{name}#{many}"

    def _must_go_on(self) -> None:
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


async def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function returns: a coroutine on the loop, a plain function in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    result = await asyncio.to_thread(function, *args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def as_promised(function: Callable[..., Any], plain: Any) -> Any:
    """What a step returned, of the type that its function's annotation names.

    Without an annotation, or with one that it does not fit, it is as JSON has it.
    """
    kind = _promised(function)
    if kind is Any:
        return plain
    try:
        return msgspec.convert(plain, kind, str_keys=True)
    except (msgspec.ValidationError, TypeError, ValueError):
        return plain


def _promised(function: Callable[..., Any]) -> Any:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    function = getattr(function, "__func__", function)
    try:
        if function not in _PROMISES:
            kind = get_type_hints(function, include_extras=True).get("return", Any)
            _PROMISES[function] = Any if kind in _AS_JSON_HAS_IT else kind
        return _PROMISES[function]
    except Exception:
        return Any  # it cannot be read, or what was called is no function


def duration_of(duration: Duration | None, given: DurationKeywords) -> Duration:
    """A duration, or one from the keywords of a `timedelta`."""
    if duration is not None and given:
        raise InvalidOption(f"give a duration or {', '.join(given)}, not both")
    if duration is not None:
        return duration
    try:
        return timedelta(**given)
    except TypeError as error:
        raise InvalidOption(f"a sleep takes a duration, or days, hours, minutes: {error}") from None


def checked_name(kind: str, name: str) -> str:
    """The name of a step or a signal, which must be text."""
    if not isinstance(name, str) or not name or "#" in name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the name of a {kind} must be text without '#', got {name!r}")
    return name


async def send_signal(
    client: Client, keys: QueueKeys, job_id: str, signal: str, data: Any, sealing: Sealing
) -> bool:
    """Send a signal to a job; False when the job has ended. Internal."""
    checked_name("signal", signal)
    call = secrets.token_hex(_CALL_SIZE // 2)
    raw = await sealing.sealed_json(keys.name, codec.encode_as_node(data))
    code = await waiting(
        lambda: step_scripts.signal_job(
            client, keys, base=keys.base, id=job_id, signal=signal, call=call, data=raw
        ),
        at_most_s=_INSIST_S,
    )
    if code < 0:
        raise NotFound(f"there is no job {job_id}")
    return code == 1

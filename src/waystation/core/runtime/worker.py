"""The worker: claims from any source, runs a handler, files the outcomes away.

Two calls to the source may be under way at once, so that the store and Python work at the same
time. Each call takes along whatever has finished since the last one and brings back as much as
there is room for: a batch is what is already there, never what might come.

A call is made by a task of its own, a caller, so that everything that ends in a turn of the event
loop goes along. Where nothing else can end in that turn, because nothing else runs, the slot that
has finished takes an idle caller's place and calls itself: two turns fewer, which is much for one
job. Whatever becomes of that call but a plain answer is left to the caller.

`Demand` decides whether to ask and for how much. What is held is what was claimed and not yet
filed: a lease is renewed until the source has answered for its outcome, so a worker that is killed
at any line loses nothing; its leases run out, and others claim what it held.
"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from waystation.core.backoff import Backoff, Growth
from waystation.core.durations import Duration, seconds
from waystation.core.errors import (
    Cancelled,
    InvalidOption,
    ScriptFailed,
    StoreError,
    WrongType,
)
from waystation.core.failure import cut_own_frames, message_of
from waystation.core.options import at_least
from waystation.core.outcome import Failed, Outcome, Returned
from waystation.core.runtime.batches import Batching
from waystation.core.runtime.claim import Claim, Refused, Reply, Settled, Source
from waystation.core.runtime.demand import Demand
from waystation.core.runtime.handlers import Handler
from waystation.core.runtime.lease_keeper import LeaseKeeper
from waystation.core.runtime.listeners import Calls
from waystation.core.runtime.slots import Slots
from waystation.core.runtime.tasks import end
from waystation.core.runtime.worklog import WorkLog
from waystation.core.telemetry.logs import get_logger

W = TypeVar("W")
T = TypeVar("T")
_log = get_logger(__name__)

_RETRY_BACKOFF = Backoff(Growth.EXPONENTIAL, delay_ms=50, cap_ms=5_000, jitter=0.5)
"""Between tries while the store is away; jittered, so that a fleet does not return together."""
_RNG = random.Random()


MOST_AT_ONCE = 1_000
"""What one call may take: scripts hand on no more values than a few thousand at once."""


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works."""

    concurrency: int = 1
    """Handlers running at once."""
    batch_limit: int = 100
    """Most work settled, and most claimed, in one call; at most 1,000."""
    calls: int = 2
    """Calls to the source under way at once."""
    lease: Duration = 30.0
    """How long a claim is ours without renewal."""
    renew: Duration = 0.0
    """How often leases are renewed; 0 means at a third of the lease."""
    timeout: Duration | None = None
    """How long one handler may take."""
    grace: Duration = 30.0
    """How long running handlers may go on after the worker was asked to stop."""
    poll: Duration = 5.0
    """Longest wait for work before looking again; heals a lost wake-up."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "batch_limit", "calls"):
            at_least(name, getattr(self, name), 1)
        if self.batch_limit > MOST_AT_ONCE:
            raise InvalidOption(
                f"batch_limit must be at most {MOST_AT_ONCE}, got {self.batch_limit}"
            )
        seconds(self.lease, "lease", above=0)
        seconds(self.poll, "poll", above=0)
        seconds(self.grace, "grace")
        seconds(self.renew, "renew")
        if seconds(self.renew) >= seconds(self.lease):
            raise InvalidOption(
                f"renew must be shorter than the lease of {seconds(self.lease):g} s, "
                f"got {seconds(self.renew):g} s"
            )
        if self.timeout is not None:
            seconds(self.timeout, "timeout", above=0)


class Listener(Protocol[W]):
    """Who wants to know what a worker does; called on the worker's loop, so it must be quick.

    A method may be a coroutine, which is awaited behind those before it. What a listener raises is
    logged, and a listener may have a method `drained`, for when there was nothing more to claim.
    """

    def claimed(self, claims: Sequence[Claim[W]]) -> None:
        """These came in."""

    def settled(self, settled: Sequence[Settled[W]]) -> None:
        """These outcomes were accepted; each as it was stored."""

    def refused(self, refused: Sequence[Refused[W]]) -> None:
        """These outcomes did not count."""

    def lost(self, claims: Sequence[Claim[W]]) -> None:
        """These leases ran out while the work was running."""

    def troubled(self, error: StoreError) -> None:
        """The source could not be asked; the worker goes on trying."""


class Worker(Generic[W]):
    """Runs one handler over one source until asked to stop."""

    def __init__(
        self,
        source: Source[W],
        handler: Handler[W],
        options: WorkerOptions | None = None,
        *,
        listener: Listener[W] | None = None,
        log: WorkLog[W] | None = None,
        batching: Batching[W] | None = None,
    ) -> None:
        self._source = source
        self._log = log or WorkLog[W]()
        self._options = options = options or WorkerOptions()
        self._listener = listener
        self.calls = Calls(_listener_failed)
        """Internal: what its listener has begun."""
        self._slots = Slots(
            handler,
            concurrency=options.concurrency,
            timeout_s=None if options.timeout is None else seconds(options.timeout),
            finished=self._finished,
            batching=batching,
        )
        self._concurrency = options.concurrency
        # With a batch handler a slot holds a batch, so that many more may be claimed.
        self._each = max(handler.batch, 1)
        self._demand = Demand(options.concurrency * self._each)
        self._held: dict[Claim[W], None] = {}
        self._done: list[Settled[W]] = []
        self._idle_callers: list[_IdleCaller[W]] = []
        self._is_drained = False
        self._paused = False
        self._is_stuck = False
        self._stopping = asyncio.Event()
        self._quiet = asyncio.Event()
        self._idle = asyncio.Event()
        self._under_way = 0

    # Run: the calls, the wait for work and the renewal of leases go on side by side until `stop`.

    async def run(self) -> None:
        """Work until asked to stop, then finish or hand back what was begun."""
        options = self._options
        keeper = LeaseKeeper(
            self._source,
            held=lambda: list(self._held),
            lost=self._lost,
            lease=seconds(options.lease),
            every=seconds(options.renew) or seconds(options.lease) / 3,
        )
        async with keeper:
            # If the process ends anywhere from here on, the keeper's thread ends with it: what is
            # held is renewed no more, its leases run out, and another worker claims it.
            self._log.started()
            tasks = [asyncio.create_task(self._make_calls()) for _ in range(options.calls)]
            tasks.append(asyncio.create_task(self._wait_for_work()))
            try:
                await self._until_stopped(tasks)
                await self._drain()
            finally:
                await end(tasks)
                await self._slots.close()
                await self.calls.finish()
                self._log.stopped()

    async def _until_stopped(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        for task in tasks:
            if task.done():
                # They never end by themselves, so this one has broken, and the worker with it.
                task.result()

    # Claim. A job is ours from the moment in which the source has written our lease token, which is
    # before its answer is here. If the process ends in between, nobody runs the job, its lease runs
    # out, and the upkeep of another worker puts it back. If only the answer is lost, the source
    # finds by the token of that call what it has claimed, when it is called again.

    async def _make_calls(self) -> None:
        while True:
            error = None
            call = self._take()
            if call is None:
                call, error = await self._sleep_until_woken()
            if call is not None:
                self._deliver(await self._call(call, error), call)

    def _take(self) -> "_Call[W] | None":
        """What a call that is made now takes along and asks for; None when it would do neither."""
        limit = self._options.batch_limit
        settled = self._done[:limit]
        del self._done[:limit]
        room = 0
        if (settled or self._demand.is_worth_a_call) and self._may_claim():
            room = self._demand.take(limit, with_outcomes=bool(settled))
        if not (settled or room):
            return None
        self._under_way += 1
        return _Call(settled, room, self._demand.number_call())

    def _may_claim(self) -> bool:
        if self._stopping.is_set() or self._paused:
            return False
        stuck = self._slots.is_stuck
        if stuck != self._is_stuck:
            self._is_stuck = stuck
            self._log.stuck(stuck)
        if stuck:
            # Threads end without a word, so it is looked at again.
            asyncio.get_running_loop().call_later(_STUCK_FOR_S, self._look_again)
        return not stuck

    @property
    def _has_more(self) -> bool:
        return bool(self._done) or self._demand.is_worth_a_call

    async def _call(self, call: "_Call[W]", error: StoreError | None = None) -> Reply[W]:
        """Call until there is an answer; `error` is what came of the first try."""
        settled, room, _ = call
        tries = 0
        while True:
            if error is None:
                try:
                    reply = await _asked(self._source.settle(settled, claim=room))
                    self._log.answered()
                    return reply
                except StoreError as raised:
                    error = raised
            if settled and isinstance(error, ScriptFailed):
                return await self._call_apart(settled, room, error)
            self._trouble(error)
            if self._stopping.is_set():
                if not settled and isinstance(error, ScriptFailed | WrongType):
                    return Reply()
                room = 0
            error = None
            tries += 1
            await asyncio.sleep(_RETRY_BACKOFF.pause_ms(tries, _RNG) / 1000)

    async def _call_apart(
        self, settled: Sequence[Settled[W]], room: int, error: ScriptFailed
    ) -> Reply[W]:
        # A script that fails has moved nothing. One outcome that cannot be filed must not take the
        # others with it, nor may what cannot be claimed keep one from being filed.
        if len(settled) == 1 and not room:
            return self._refuse(settled, error)
        replies = [await self._call(_Call([each], 0, 0)) for each in settled]
        return Reply(
            (),
            [refused for reply in replies for refused in reply.refused],
            [stored for reply in replies for stored in reply.settled],
        )

    def _refuse(self, settled: Sequence[Settled[W]], error: StoreError) -> Reply[W]:
        self._trouble(error)
        return Reply((), [Refused(each.claim, error) for each in settled])

    def _deliver(self, reply: Reply[W], call: "_Call[W]", *, wake: int = 1) -> None:
        settled, room, number = call
        self._under_way -= 1
        for each in settled:
            self._held.pop(each.claim, None)
        claims = reply.claims
        if claims:
            self._held.update(dict.fromkeys(claims))
            self._slots.run(claims, wake=wake)
            if self._stopping.is_set():
                self._slots.give_back_ready()
        self._demand.answered(number, room, len(claims), with_outcomes=bool(settled))
        if room and self._demand.is_quiet:
            self._quiet.set()
        self._notice_if_idle()
        self._log.settled(reply.settled)
        self._log.refused(reply.refused)
        if self._listener is not None:
            self._notify_of(reply, room)

    # Run and settle. A slot has run the handler: the outcome waits in `_done` for the next call,
    # and the claim stays in `_held`, so that its lease is renewed until the source has answered. If
    # the process ends here, what the handler did is done and nobody knows of it: the lease runs out
    # and the job runs again, which is why a handler must bear to run twice. If the source has
    # stored the outcome and its answer is lost, the same outcome is sent again and the source knows
    # it.
    #
    # Complete, retry or fail is for the source to say, in its record of the outcome; here all three
    # are one `Settled`, and what the source has accepted comes back in its reply as it was stored.

    def _finished(
        self, claim: Claim[W], outcome: Outcome | None, took_s: float, alone: bool
    ) -> Coroutine[Any, Any, None] | None:
        self._demand.room += 1
        if outcome is None:
            self._held.pop(claim, None)
            self._notice_if_idle()
        else:
            # By its type: `isinstance` takes half a microsecond here when the answer is no.
            if type(outcome) is Failed:
                cut_own_frames(outcome.error)
            self._done.append(Settled(claim, outcome, took_s))
        if caller := self._idle_caller():
            # Where more has ended, a caller is on its way already.
            if alone and len(self._done) == 1 and (call := self._take()):
                return self._call_from_slot(call, caller)
            caller.set_result((None, None))
        return None

    async def _call_from_slot(self, call: "_Call[W]", caller: "_IdleCaller[W]") -> None:
        try:
            reply = await _asked(self._source.settle(call.settled, claim=call.room))
            if caller.done():
                # The worker has ended, so that nobody would run what came.
                return
            self._log.answered()
            self._deliver(reply, call, wake=0)
        except StoreError as error:
            _end_idling(caller, (call, error))
            return
        except asyncio.CancelledError:
            # Whoever did that meant the handler, which has ended.
            _end_idling(caller, (call, None))
            raise
        except Exception as error:
            if not caller.done():
                caller.set_exception(error)
            return
        self._idle_callers.append(caller)
        if self._has_more:
            # What a caller can send goes first, so that the store works while handlers run.
            self._wake_caller()
            await asyncio.sleep(0)

    def _idle_caller(self) -> "_IdleCaller[W] | None":
        while self._idle_callers:
            caller = self._idle_callers.pop()
            if not caller.done():
                return caller
        return None

    async def _sleep_until_woken(self) -> "_LeftToCaller[W]":
        caller: _IdleCaller[W] = asyncio.get_running_loop().create_future()
        self._idle_callers.append(caller)
        return await caller

    def _wake_caller(self) -> None:
        if caller := self._idle_caller():
            caller.set_result((None, None))

    # Lost lease: it was not renewed in time, because the store was away or the process stood still,
    # or somebody has ended the job. The handler is cancelled, and its outcome is dropped. One that
    # was there before is sent and refused, because the source compares tokens before it stores.

    def _lost(self, claims: Sequence[Claim[Any]]) -> None:
        # What is already finished stays: its outcome is sent, and the source refuses it.
        stopped = [claim for claim in claims if self._slots.stop(claim, None)]
        self._log.lost(stopped)
        if stopped:
            self._notify("lost", stopped)

    # Wait. A wake-up that gets lost costs no job: the wait ends by itself after `poll`.

    async def _wait_for_work(self) -> None:
        tries = 0
        while True:
            await self._quiet.wait()
            self._quiet.clear()
            try:
                await _asked(self._source.wait(seconds(self._options.poll)))
                self._log.answered()
                if self._paused:
                    await _asked(self._source.settle((), claim=0))
                tries = 0
            except StoreError as error:
                self._trouble(error)
                tries += 1
                await asyncio.sleep(_RETRY_BACKOFF.pause_ms(tries, _RNG) / 1000)
            self._look_again()

    def _look_again(self) -> None:
        self._demand.look_again()
        self._wake_caller()

    # Drain. What has not begun is handed back at once, what runs is given its grace, and is then
    # cancelled and handed back as if it had not been claimed. If the process is killed meanwhile,
    # or the store does not answer, the leases run out, as they do after any crash.

    async def _drain(self) -> None:
        self._slots.give_back_ready()
        self._wake_caller()
        grace_s = seconds(self._options.grace)
        if running := self._slots.running:
            self._log.stopping(len(running), grace_s)
        for within, verdict in ((grace_s, Returned()), (_LAST_CALL_S, None)):
            try:
                async with asyncio.timeout(within):
                    await self.until_idle()
                return
            except TimeoutError:
                # The newest first: each goes to the head of the line, so the oldest ends up there.
                for claim in reversed(self._slots.running):
                    self._slots.stop(claim, verdict)
        self._log.abandoned(self.held)

    async def until_idle(self) -> None:
        """Return when nothing is held, and no call is under way that could bring something."""
        while self._held or self._under_way:
            self._idle.clear()
            await self._idle.wait()

    def _notice_if_idle(self) -> None:
        if not (self._held or self._under_way):
            self._idle.set()

    # What others ask of a worker

    def stop(self) -> None:
        """Take no more work; `run` returns when what was begun is finished or handed back."""
        self._stopping.set()

    def pause(self) -> None:
        """Take no more work until resumed; what runs goes on."""
        self._paused = True

    def resume(self) -> None:
        """Take work again."""
        self._paused = False
        self._look_again()

    @property
    def paused(self) -> bool:
        """Whether the worker takes no work for now."""
        return self._paused

    @property
    def concurrency(self) -> int:
        """Handlers running at once."""
        return self._concurrency

    def resize(self, concurrency: int) -> None:
        """Let so many handlers run at once from now on; what runs already goes on."""
        at_least("concurrency", concurrency, 1)
        self._demand.room += (concurrency - self._concurrency) * self._each
        self._concurrency = concurrency
        self._slots.resize(concurrency)
        self._look_again()

    @property
    def held(self) -> list[Claim[W]]:
        """What is claimed and not yet filed away."""
        return list(self._held)

    def cancel(self, id: str) -> bool:
        """Stop the handler of one piece of work, which then fails; False if it is not here."""
        verdict = Failed(Cancelled(f"job {id} was cancelled"))
        return sum(self._slots.stop(claim, verdict) for claim in self.held if claim.id == id) > 0

    # What listeners and the log are told

    def _notify_of(self, reply: Reply[W], room: int) -> None:
        if reply.settled:
            self._notify("settled", reply.settled)
        if reply.refused:
            self._notify("refused", reply.refused)
        if reply.claims:
            self._is_drained = False
            self._notify("claimed", reply.claims)
        elif room and not self._is_drained:
            self._is_drained = True
            self._notify("drained")

    def _notify(self, event: str, *what: Any) -> None:
        if (method := getattr(self._listener, event, None)) is not None:
            self.calls.call(event, method, *what)

    def _trouble(self, error: StoreError) -> None:
        self._log.troubled(error)
        self._notify("troubled", error)


class _Call(NamedTuple, Generic[W]):
    """What goes to the source in one call; `room` is how much is asked for."""

    settled: Sequence[Settled[W]]
    room: int
    number: int


_LeftToCaller: TypeAlias = tuple[_Call[W] | None, StoreError | None]
"""A call that a slot has begun, and the error that it got, if it got one."""
_IdleCaller: TypeAlias = asyncio.Future[_LeftToCaller[W]]


async def _asked(call: Coroutine[Any, Any, T]) -> T:
    """What a source answers; whatever it raises is an error of its store.

    A worker ends by `stop`. A mistake in a source costs the outcomes that it cannot file, as a
    script that fails does, and is logged with its traceback.
    """
    try:
        return await call
    except StoreError:
        raise
    except (Exception, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise ScriptFailed(f"{type(error).__name__}: {message_of(error)}") from error


def _end_idling(caller: _IdleCaller[W], left: _LeftToCaller[W]) -> None:
    if not caller.done():
        caller.set_result(left)


def _listener_failed(event: str, error: BaseException) -> None:
    _log.error("listener_failed", error, listener=event)


_STUCK_FOR_S = 1.0
"""How often a worker that claims no more, because its threads hang, looks whether one has ended."""

_LAST_CALL_S = 5.0
"""After the grace: how long handing back may take before the leases are left to lapse."""

"""The one listener of all workers of a process on one store and namespace, and how each waits.

A job that comes to stand at the head of its signature leaves a wake-up in a stream. One connection
reads the stream for all workers here, and a wake-up is handed to one idle worker that can serve the
signature, which then asks for jobs. If it gets as many as it has room for, there may be more, and
the wake-up goes on to the next worker; if it gets fewer, there is nothing left to wake anybody for.

Whatever says less than a signature (a limit that was lifted, a delayed job, a job that others have
pushed with plain commands) is found by looking, for all idle workers in one call: at once when a
wake-up asks for it, when a delay or a limit is known to end, and every second.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from waystation.core import codec
from waystation.core.clock import SERVER_TIME, Clock
from waystation.core.errors import Malformed, StoreError
from waystation.core.runtime.tasks import end, leave_if_cancelled
from waystation.core.shared import Shared
from waystation.core.store import faults
from waystation.core.store.commands import Entry, read_on
from waystation.core.store.connection import Store
from waystation.core.telemetry.logs import get_logger
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.redis.replies import Look, Settlement
from waystation.routing.registry import Profile

_log = get_logger(__name__)

LONGEST_BLOCK_S = 10.0
"""Longer blocks would hide a connection that has died."""
POLL_S = 1.0
"""Jobs that other clients put into the list with plain commands wake nobody; this finds them."""
LEAST_PAUSE_S = 0.01
"""Between two looks, also of a worker that wakes for jobs that others are quicker to take."""
MANY = 128
"""Of so many wake-ups at once some may have left the stream before they were read."""
PER_LOOK = 250
"""Workers that one call looks for."""
UNSERVED = 64
"""Wake-ups kept for workers that are about to wait."""
SIGNATURES = 1_000
"""Signatures of which it is remembered who can serve them."""

Place: TypeAlias = tuple[Store, str, Clock | None]
"""The store that the workers use, their namespace, and the clock, which only tests bring."""
Instant: TypeAlias = tuple[int, int]
"""An id of a stream: milliseconds, and a number among those of the same millisecond."""


def instant(text: str | bytes) -> Instant:
    """Read an id of a stream."""
    milliseconds, _, number = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(milliseconds), int(number or 0)


class Idle(Protocol):
    """A worker that waits; the hub knows no more of it."""

    server: str
    profile: bytes
    heard: Instant

    @property
    def is_idle(self) -> bool:
        """Whether it waits, and has room for a job."""
        ...

    def handles(self, queue: bytes) -> bool:
        """Whether it has a handler for a type."""
        ...

    def wake(self, wake_up: "WakeUp") -> None:
        """End its wait."""

    def fail(self, error: Exception) -> None:
        """End its wait with an error."""


class WakeUp:
    """One wake-up, on its way through the workers that could serve it."""

    __slots__ = ("asked", "id", "profiles", "queue", "server", "signature")

    def __init__(
        self,
        id: Instant,
        queue: bytes = b"",
        signature: bytes = b"",
        profiles: frozenset[bytes] | None = None,
    ) -> None:
        self.id = id
        self.queue = queue
        self.server = _named_in(signature) if signature else ""
        """The one worker that is asked for; empty when none is named."""
        self.signature = signature
        self.profiles = profiles
        """Those that were seen to have something to do; None where the signature decides."""
        self.asked: set[Idle] = set()

    def may_concern(self, worker: Idle) -> bool:
        """Whether a worker is worth asking, as far as is known here."""
        if not worker.is_idle or worker in self.asked:
            return False
        if self.profiles is not None:
            return worker.profile in self.profiles
        if self.server and self.server != worker.server:
            return False
        return worker.heard < self.id and worker.handles(self.queue)


def _named_in(signature: bytes) -> str:
    try:
        return codec.decode(signature)[2]
    except (Malformed, LookupError, TypeError):
        return ""


class Hub:
    """The idle workers of a process, and the wake-ups for them."""

    def __init__(self, place: Place) -> None:
        self._store, namespace, self._clock = place
        self._keys = RoutingKeys(namespace)
        self.looked = 0.0
        """When it was last seen who has something to do."""
        self.users = 0
        """Workers that listen here, whether they wait or not."""
        self._idle: OrderedDict[Idle, None] = OrderedDict()
        self._anybody = asyncio.Event()
        self._due = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._since: Instant | None = None
        """Every wake-up after this one is read; None while nobody waits."""
        self._heard: Instant = (0, 0)
        self._looked_for: Instant = (0, 0)
        """The last wake-up that only a look could serve."""
        self._unserved: OrderedDict[bytes, WakeUp] = OrderedDict()
        self._fits: OrderedDict[bytes, dict[bytes, bool]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._blocking: Any = None

    async def close(self) -> None:
        """Stop listening."""
        if self._alarm:
            self._alarm.cancel()
        await end(list(self._tasks))
        if self._blocking is not None:
            with contextlib.suppress(*faults.FAULTS):
                await self._blocking.aclose()

    # --- who waits -------------------------------------------------------------------------------

    def add(self, worker: Idle) -> None:
        """A worker begins to wait."""
        self._idle[worker] = None
        if self._since is None:
            self._since = self._heard = max(self._heard, worker.heard)
            self._look_in(POLL_S)
        if worker.heard < max(self._since, self._looked_for):
            # Its own look is older than what has been read here, so it may have missed something.
            self._look_in(0)
        else:
            self._offer_unserved(worker)
        self._anybody.set()
        if not self._tasks:
            self._run(self._listen())
            self._run(self._keep_looking())

    def remove(self, worker: Idle) -> None:
        """A worker does not wait any more."""
        self._idle.pop(worker, None)
        if not self._idle:
            # Nobody reads on for the sake of nobody; a busy worker asks again by itself.
            self._anybody.clear()
            self._since = None
            self._unserved.clear()

    def expect(self, *pauses_ms: int) -> None:
        """Note in how many milliseconds there may be more to do; 0 stands for nothing."""
        for pause_ms in pauses_ms:
            if pause_ms:
                self._look_in(pause_ms / 1000)

    @contextlib.contextmanager
    def _reporting(self) -> Generator[None]:
        """Let those who wait know of what goes wrong inside, and go on."""
        try:
            yield
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # A client that is cancelled while it connects may report a lost connection instead.
            leave_if_cancelled()
            if not isinstance(error, StoreError):
                _log.exception("waiting for work has failed and will be tried again")
                error = StoreError(f"waiting for work has failed: {error!r}")
            for worker in list(self._idle):
                worker.fail(error)
            self._since = None

    # --- what there is ---------------------------------------------------------------------------

    def hand_out(self, wake_up: WakeUp) -> None:
        """Wake the next idle worker that can serve it; without one it is kept for a while."""
        asked = [worker for worker in self._idle if wake_up.may_concern(worker)]
        if not asked:
            if wake_up.profiles is None and self._idle:
                self._keep(wake_up)
        elif wake_up.profiles is not None or wake_up.server or self.users == 1:
            # Whether a job fits is decided when it is asked for; this is only whom to wake.
            self._wake(asked[0], wake_up)
        else:
            self._hand_out_by_signature(wake_up, asked)

    def _hand_out_by_signature(self, wake_up: WakeUp, idle: Sequence[Idle]) -> None:
        known = self._fits.get(wake_up.signature, {})
        if any(worker.profile not in known for worker in idle):
            self._run(self._find_out(wake_up, {worker.profile for worker in idle} - known.keys()))
            return
        fitting = next((worker for worker in idle if known[worker.profile]), None)
        if fitting is None:
            self._keep(wake_up)
        else:
            self._wake(fitting, wake_up)

    def _wake(self, worker: Idle, wake_up: WakeUp) -> None:
        wake_up.asked.add(worker)
        worker.wake(wake_up)

    def _keep(self, wake_up: WakeUp) -> None:
        kept = self._unserved.get(wake_up.signature)
        if kept and kept.id > wake_up.id:
            # Whoever has heard this one may not have heard that.
            return
        self._unserved[wake_up.signature] = wake_up
        if len(self._unserved) > UNSERVED:
            _, dropped = self._unserved.popitem(last=False)
            self._since = max(self._since or dropped.id, dropped.id)

    def _offer_unserved(self, worker: Idle) -> None:
        for signature, wake_up in list(self._unserved.items()):
            if wake_up.may_concern(worker):
                del self._unserved[signature]
                self.hand_out(wake_up)

    async def _find_out(self, wake_up: WakeUp, profiles: Iterable[bytes]) -> None:
        """Ask who fits, and hand out what has waited for the answer."""
        asked = list(profiles)
        with self._reporting():
            places = await scripts.fits(
                self._store.hot, self._keys, signature=wake_up.signature, profiles=asked
            )
            if places is None:
                return
            fitting, known = set(places), self._fits.setdefault(wake_up.signature, {})
            known |= {profile: place in fitting for place, profile in enumerate(asked)}
            self._fits.move_to_end(wake_up.signature)
            if len(self._fits) > SIGNATURES:
                self._fits.popitem(last=False)
            self.hand_out(wake_up)

    # --- listening -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            await self._anybody.wait()
            with self._reporting():
                entries = await self._read()
                if entries and self._since is not None:
                    self._heard = max(self._heard, instant(entries[-1][0]))
                    self._take_in(entries)
                continue
            await asyncio.sleep(LEAST_PAUSE_S)

    async def _read(self) -> Sequence[Entry]:
        if self._blocking is None:
            self._blocking = self._store.blocking(LONGEST_BLOCK_S)
        after = "{}-{}".format(*self._heard)
        return await read_on(
            self._blocking, self._keys.wake, after, most=1000, block_s=LONGEST_BLOCK_S
        )

    def _take_in(self, entries: Sequence[Entry]) -> None:
        newest: dict[bytes, WakeUp] = {}
        for id, fields in entries:
            signature = fields.get(b"signature", b"")
            newest[signature] = WakeUp(instant(id), fields.get(b"queue", b""), signature)
        if newest.pop(b"", None) or len(entries) >= MANY:
            self._looked_for = self._heard
            self._look_in(0)
        for wake_up in newest.values():
            self.hand_out(wake_up)

    # --- looking ---------------------------------------------------------------------------------

    def _look_in(self, seconds: float) -> None:
        """Look after that long, unless it will happen earlier."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._alarm is not None and self._alarm.when() <= at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_at(at, self._due.set)

    async def _keep_looking(self) -> None:
        while True:
            await self._due.wait()
            await self._anybody.wait()
            self._due.clear()
            self._alarm = None
            self._look_in(POLL_S)
            with self._reporting():
                await self._look()
            await asyncio.sleep(LEAST_PAUSE_S)

    async def _look(self) -> None:
        idle = [worker for worker in self._idle if worker.is_idle]
        for first in range(0, len(idle), PER_LOOK):
            some, before = idle[first : first + PER_LOOK], self._heard
            found = await scripts.look(
                self._store.hot,
                self._keys,
                now=self._clock.now_ms() if self._clock else SERVER_TIME,
                profiles=[worker.profile for worker in some],
            )
            if (newest := instant(found.woken)) < before:
                # The stream has begun anew: the store was emptied.
                self._heard = newest
            self.expect(found.limited_ms, found.due_in_ms or 0)
            self._wake_those(some, found)
        self.looked = time.monotonic()

    def _wake_those(self, idle: Sequence[Idle], found: Look) -> None:
        by_signature: dict[bytes, set[bytes]] = {}
        for place, signature in found.found:
            # Without a signature each looks for itself, so that none stands for the others.
            profile = idle[place].profile
            by_signature.setdefault(signature or profile, set()).add(profile)
        for profiles in by_signature.values():
            self.hand_out(WakeUp(instant(found.woken), profiles=frozenset(profiles)))

    def _run(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _made(place: Place) -> Hub:
    return Hub(place)


hubs = Shared(_made, Hub.close)
"""One for each place, for as long as a worker there may wait."""


class Wakes:
    """What one worker waits with: it listens through the hub of its store and namespace."""

    def __init__(self, place: Place, profile: Profile) -> None:
        self.server = profile.server
        self.profile = profile.matched()
        self.heard: Instant = (0, 0)
        """The last wake-up that the worker's own look for jobs knew of."""
        self._types = {type.encode() for type in profile.types}
        self._place = place
        self._hub: Hub | None = None
        self._has_room = True
        self._woken: asyncio.Future[None] | None = None
        self._errand: WakeUp | None = None
        self._pauses_ms = (0, 0)
        """How long a limit lasts and a delay does, as the last look for jobs knew them."""

    @property
    def is_idle(self) -> bool:
        """Whether the worker waits, and has room for a job."""
        return self._has_room and self._woken is not None and not self._woken.done()

    def handles(self, queue: bytes) -> bool:
        """Whether the worker has a handler for a type."""
        return not self._types or queue in self._types

    def answered(self, settlement: Settlement, *, full: bool) -> None:
        """Note what a look for jobs has brought: as many as there is room for, or all there are."""
        had_room, self._has_room = self._has_room, not full
        if full:
            self.pass_on()
            return
        self.heard = instant(settlement.woken)
        if self._errand and self._errand.id <= self.heard:
            self._errand = None
        self._pauses_ms = (settlement.limited_ms, settlement.due_in_ms or 0)
        if self._hub:
            self._hub.expect(*self._pauses_ms)
            if self.is_idle and not had_room:
                # It has waited all the time, but was not to be woken.
                self._hub.add(self)

    def pass_on(self) -> None:
        """Leave the wake-up that this worker was given to another one."""
        errand, self._errand = self._errand, None
        if errand and self._hub:
            self._hub.hand_out(errand)

    async def wait(self, at_most: float) -> None:
        """Return when there is something to do, or nobody has looked for that many seconds."""
        hub = self._hub or await self._joined()
        await asyncio.sleep(LEAST_PAUSE_S)
        began = time.monotonic()
        self._woken = asyncio.get_running_loop().create_future()
        hub.add(self)
        try:
            while (left := max(began, hub.looked) + at_most - time.monotonic()) > 0:
                done, _ = await asyncio.wait([self._woken], timeout=left)
                if done:
                    return self._woken.result()
        finally:
            hub.remove(self)
            self._woken = None

    def wake(self, wake_up: WakeUp) -> None:
        """End the wait for the sake of this wake-up."""
        if self._woken is not None:
            self._errand = wake_up
            self._woken.set_result(None)

    def fail(self, error: Exception) -> None:
        """End the wait with an error."""
        if self._woken and not self._woken.done():
            self._woken.set_exception(error)

    async def close(self) -> None:
        """Stop listening."""
        self.pass_on()
        if self._hub:
            hub, self._hub = self._hub, None
            hub.users -= 1
            await hubs.give_back(self._place)

    async def _joined(self) -> Hub:
        self._hub = await hubs.take(self._place)
        self._hub.users += 1
        self._hub.expect(*self._pauses_ms)
        return self._hub

"""Queue events for code that waits, and waiting for the end of a job."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

from waystation.bullmq.events.event import QueueEvent, read_event
from waystation.bullmq.events.finishes import ENDS, outcome_of
from waystation.bullmq.events.gaps import BEGINNING, Trail, order
from waystation.bullmq.events.stream import NOW, POSITION, START
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.scripts import end_of, extent
from waystation.core.durations import Duration, seconds
from waystation.core.errors import InvalidOption, StoreBusy, StoreUnreachable
from waystation.core.options import checked
from waystation.core.store import faults
from waystation.core.store.connection.blocking import BlockingStore
from waystation.sync.client import BlockingClient

_AT_ONCE = 1000
_BLOCK_S = 5.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 2.0

_Entry: TypeAlias = tuple[bytes, dict[bytes, bytes]]


@checked
class QueueEvents(BlockingClient):
    """Listens to a queue; iterating over it yields events as they happen."""

    def __init__(
        self, name: str, url: "str | BlockingStore | None" = None, *, prefix: str = PREFIX
    ) -> None:
        super().__init__(url)
        self._keys = QueueKeys(name, prefix=prefix)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._keys.name

    def __iter__(self) -> Iterator[QueueEvent]:
        return self.listen()

    def last_id(self) -> str:
        """The id of the newest event, after which to go on listening."""
        return extent.call_sync(self._store().client, self._keys).last or BEGINNING

    def listen(self, after: str = NOW) -> Iterator[QueueEvent]:
        """Events after this position: an event's id, START or NOW.

        After an outage of the store it goes on where it was; it ends when the listener is closed.
        For events that were trimmed away before they could be read there is a `Gap`.
        """
        if not POSITION.fullmatch(after):
            raise InvalidOption(f"a position is '$' or an event's id such as 17-0, got {after!r}")
        # The position is that of the call, not of the first event asked for.
        return self._follow(self._begin(after))

    def wait(self, job_id: str, timeout: Duration | None = None) -> Any:
        """Wait until a job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        most = None if timeout is None else seconds(timeout, "timeout")
        deadline = None if most is None else time.monotonic() + most
        # The position first, a look second: an end between the two is seen by both.
        position, pause = self.last_id(), _FIRST_PAUSE_S
        while True:
            left = _BLOCK_S if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                position, result = self._look(job_id, position, min(left, _BLOCK_S))
                if result is not None:
                    return result()
                pause = _FIRST_PAUSE_S
            except (StoreUnreachable, StoreBusy) as error:
                # As listening does, it goes on after an outage.
                if error.for_good:
                    raise
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LAST_PAUSE_S)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"job {job_id} has not finished within {most:g} s")

    def _look(
        self, job_id: str, position: str, block_s: float
    ) -> tuple[str, Callable[[], Any] | None]:
        """How far events were read, and what gives the result of a job that has ended."""
        client = self._store().client
        end = end_of.call_sync(client, self._keys, id=job_id)
        if end.finished:
            return position, end.result
        gone = end.state == "missing"
        entries = self._read(position, 0.0 if gone else block_s)
        for id, entry in entries:
            event = read_event(self.name, id, entry)
            if event.job_id == job_id and event.name in ENDS:
                return position, partial(outcome_of, job_id, event)
        if gone and len(entries) < _AT_ONCE:
            return position, partial(outcome_of, job_id, None)
        return (entries[-1][0].decode() if entries else position), None

    def _begin(self, after: str) -> Trail:
        client = self._store().client
        if after == NOW:
            return Trail.from_now(extent.call_sync(client, self._keys))
        if order(after) == order(START):
            return Trail.from_the_start(extent.call_sync(client, self._keys))
        return Trail.from_place(after, extent.call_sync(client, self._keys, after=after))

    def _follow(self, trail: Trail) -> Iterator[QueueEvent]:
        pause = _FIRST_PAUSE_S
        while not self._closed:
            try:
                entries = self._read(trail.at, _BLOCK_S)
                found = extent.call_sync(self._store().client, self._keys) if entries else None
            except (StoreUnreachable, StoreBusy) as error:
                if error.for_good:
                    return
                time.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE_S)
                continue
            pause = _FIRST_PAUSE_S
            if found is None:
                continue
            if gap := trail.follow([id.decode() for id, _ in entries], found):
                yield gap
            for id, entry in entries:
                yield read_event(self.name, id, entry)

    def _read(self, after: str, block_s: float) -> Sequence[_Entry]:
        store = self._store()
        # A call that blocks longer than a call may take would look like a lost answer.
        block_s = min(block_s, store.options.call_timeout / 2)
        block = ("BLOCK", max(1, int(block_s * 1000))) if block_s > 0 else ()
        with faults.translated():
            answer = cast(
                "Any",
                store.client.execute_command(
                    *("XREAD", "COUNT", _AT_ONCE, *block, "STREAMS", self._keys.events, after)
                ),
            )
        return answer[0][1] if answer else ()

"""Runs: events into bronze, bronze into silver, silver into gold, recommendations to the queues.

A run asks the queues that it follows for longer streams, and marks them. A script that removes a
job writes what it was into an event while there is such a mark, unless the history has read it
already. A mark expires, so that a history which is given up costs nothing.
"""

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.durations import Duration, milliseconds, seconds
from waystation.core.errors import HistoryCut, InvalidOption
from waystation.core.events import Product
from waystation.core.store import faults
from waystation.files.options import Layout
from waystation.pipeline.bronze import commits, ingest
from waystation.pipeline.bronze.ingest import Ingest
from waystation.pipeline.feedback import write_models, write_recommendations
from waystation.pipeline.gold.staffing import DEFAULT_TARGET_MS
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import compact_where_needed
from waystation.pipeline.maintenance.erasure import first_day_kept, retain_payloads
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.products import product_named
from waystation.pipeline.products.facts import OpenIds
from waystation.pipeline.products.files import open_files
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import gold_tables
from waystation.pipeline.refresh.fold import APPLICATION, rows_to_fold
from waystation.pipeline.refresh.quality import last_checks
from waystation.pipeline.refresh.snapshot import Snapshot, take_snapshot
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.sources.offsets import (
    EventStream,
    Offset,
    StreamRange,
    behind,
    between,
)
from waystation.pipeline.sources.store import Store, ends_of, url_of, url_option
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.spark.errors import translated
from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.storage.sessions import is_connected
from waystation.pipeline.storage.table_log import kept_open
from waystation.pipeline.storage.turns import shared_turn
from waystation.pipeline.tables import EVENTS


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a run."""

    events: EventOptions
    """The store, products and queues to read."""
    target_wait: Duration = DEFAULT_TARGET_MS / 1000
    """Wait that the recommended number of workers should keep."""
    payloads: PayloadSettings = PayloadSettings()
    """What is kept of jobs besides their events."""
    files_layout: Layout | None = None
    """Names of the keys of files; None means the default ones."""
    write_back: bool = True
    """Whether recommendations are written to the queues."""
    every: Duration = 30.0
    """Time between two rounds, for `follow`."""

    def __post_init__(self) -> None:
        seconds(self.target_wait, "target_wait", above=0)
        seconds(self.every, "every")


class RunResult(msgspec.Struct, frozen=True):
    """The result of one round."""

    events: int
    """Events that were stored."""
    recommendations: int
    """Recommendations that were written to the queues."""
    seconds: float
    failed_checks: tuple[str, ...] = ()
    """Consistency checks that failed, each in one line."""


@translated()
def run(history: History, options: RunOptions, progress: Progress | None = None) -> RunResult:
    """Store all events that the streams hold now, and refresh silver and gold."""
    rounds = Rounds(history, options, progress)
    rounds.start(rounds.after).finish()
    if rounds.last is None:
        with shared_turn(history.root, "run"):
            return rounds.refresh()
    return rounds.last


@translated()
def follow(
    history: History,
    options: RunOptions,
    stop: threading.Event,
    progress: Progress | None = None,
    on_round: Callable[[RunResult], None] = lambda _: None,
) -> None:
    """Store events and refresh tables, round after round until `stop` is set."""
    rounds = Rounds(history, options, progress, on_round)
    reading = rounds.start(rounds.go_on, every=f"{seconds(options.every)} seconds")
    try:
        while not stop.is_set() and reading.is_running():
            stop.wait(0.5)
    finally:
        reading.stop()


def require_its_events(root: str) -> None:
    """Refuse silver that was folded from events which bronze has no more."""
    folded = delta.last_batch(STEPS.path(root), APPLICATION)
    if folded is not None and folded > (table_log.version(EVENTS.path(root)) or 0):
        raise HistoryCut(
            f"the events in {EVENTS.path(root)} are gone, or older than the tables that were "
            "computed from them. Nothing was read or written; `waystation pipeline rebuild` "
            "computes these tables again from the events that are there"
        )


def require_driver(history: History) -> None:
    """Start Spark, and refuse a session without a driver of its own."""
    if is_connected(history.spark):
        raise InvalidOption(
            "a run wants a Spark master, got a session of Spark Connect: it writes files and "
            "reads the streams by its own tasks. Questions can be asked through Spark Connect"
        )


class Rounds:
    """Rounds: what follows each batch of events that was stored.

    A snapshot is taken before the ends of the streams are looked at, and used once bronze holds all
    that they had by then: so what is open by the events and not in the snapshot is missing.
    """

    def __init__(
        self,
        history: History,
        options: RunOptions,
        progress: Progress | None = None,
        on_round: Callable[[RunResult], None] = lambda _: None,
    ) -> None:
        require_driver(history)
        require_its_events(history.root)
        self._history = history
        self._options = options
        self._progress = progress or NoProgress()
        self._on_round = on_round
        self._reached: Mapping[str, Offset] | None = None
        self._began = time.monotonic()
        self._events = 0
        self.last: RunResult | None = None
        self._mark()
        self._look()

    def start(self, after: Callable[[int], object], *, every: str | None = None) -> Ingest:
        """Start the query that stores events, with this after each batch."""
        self._progress.begin("reading events")
        return ingest.start(
            self._history.spark,
            self._history.root,
            payloads=self._options.payloads,
            every=every,
            after=after,
            **_source_options(self._history, self._options.events),
        )

    def after(self, stored: int) -> bool:
        """Refresh silver and gold after a batch; False while bronze is behind the snapshot."""
        self._events += stored
        self._mark()
        if self._is_behind():
            return False
        self._on_round(self.refresh())
        return True

    def refresh(self) -> RunResult:
        """Refresh silver and gold from what is stored."""
        with kept_open():
            written = _refresh(self._history, self._options, self._snapshot, self._progress)
            failed = [str(each) for each in last_checks(self._history.root) if not each.passed]
        spent = time.monotonic() - self._began
        self.last = RunResult(self._events, written, spent, tuple(failed))
        self._events = 0
        return self.last

    def go_on(self, stored: int) -> None:
        """The same, and prepare for another round."""
        if self.after(stored):
            self._began = time.monotonic()
            self._look()

    def _mark(self) -> None:
        # By the clock: a queue may be quiet for days, or have been created since.
        reached = commits.offsets_in(self._history.root)
        raise_stream_limits(
            self._options.events,
            keeps_payloads=self._options.payloads.keep,
            reached=reached,
            before=self._reached or reached,
        )
        self._reached = reached

    def _look(self) -> None:
        self._progress.begin("taking a snapshot of the queues")
        is_first = table_log.version(EVENTS.path(self._history.root)) is None
        open_ids: dict[str, OpenIds] = {}
        if (layout := self._options.files_layout) is not None:
            open_ids[Product.FILES.value] = lambda client, _, __: open_files(client, layout)
        self._snapshot = take_snapshot(self._options.events, is_first=is_first, open_ids=open_ids)

    def _is_behind(self) -> bool:
        """Whether streams still have events that they had at the snapshot, and bronze has not."""
        here, wanted = self._reached or {}, self._snapshot.ends
        late = [each for each, end in wanted.items() if here.get(each, Offset()).order < end.order]
        with faults.translated():
            # One that was deleted may never reach its end again.
            now = ends_of(self._snapshot.store, late)
        return any(end.order >= wanted[each].order for each, end in now.items())


def rows_ahead(events: EventOptions, root: str) -> float:
    """About how many rows the next round of a history gets."""
    return backlog(events, root) + rows_to_fold(root)


def backlog(events: EventOptions, root: str) -> int:
    """About how many events the streams hold that a history does not."""
    streams = Streams(events)
    with faults.translated():
        ends = streams.ends()
        there = (each for each in streams.now() if each.key in ends)
        moved = {each.stream.key: each for each in between(commits.offsets_in(root), ends, there)}
        lengths = streams.store.ask({key: ("XLEN", key) for key in moved})
    return sum(_new_entries(each, lengths[key]) for key, each in moved.items())


def _new_entries(moved: StreamRange, length: int) -> int:
    """The entries of a range that are still there."""
    counted = behind(moved.after, moved.until)
    return length if counted is None else min(length, counted)


def _refresh(history: History, options: RunOptions, snapshot: Snapshot, progress: Progress) -> int:
    """Refresh silver and gold; returns the number of recommendations written."""
    progress.begin("folding events into attempts and items")
    target_ms = milliseconds(options.target_wait)
    gold_tables.fold_after_counting(history, target_ms=target_ms)
    gold_tables.refresh(history, snapshot, target_ms=target_ms, progress=progress)
    compact_where_needed(history)
    retain_payloads(history, first_day_kept(options.payloads.retain, snapshot.at.date()))
    if not options.write_back:
        return 0
    progress.begin("writing recommendations")
    store = Store(url_of(options.events.url, options.events.url_env))
    written = write_recommendations(history, store, snapshot.at, options.events)
    return written + write_models(history, store, snapshot.at)


def _source_options(history: History, events: EventOptions) -> dict[str, str]:
    """Options of `waystation.events` as text."""
    given = msgspec.to_builtins(events, str_keys=True)
    shown = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        # Bronze sets the last two itself.
        if name not in ("url", "urlEnv", "starting", "accounts")
    }
    return {**shown, **url_option(history.spark, events.url, events.url_env)}


FIELD = "history"
FOLLOWED_MS = 26 * 3_600_000
"""Milliseconds that a mark counts: a history that runs once a day keeps it alive."""
NOTHING_READ: Mapping[str, Offset] = MappingProxyType({})
STREAM_LIMIT = 100_000
"""Most entries of a stream while it is followed: about 9 MB."""
ROOM = 4
"""A stream may hold so many times what it got between two rounds, if that is more."""
MOST_ROOM = 10 * STREAM_LIMIT


def raise_stream_limits(
    events: EventOptions,
    *,
    keeps_payloads: bool = True,
    reached: Mapping[str, Offset] = NOTHING_READ,
    before: Mapping[str, Offset] = NOTHING_READ,
) -> int:
    """Let the streams grow longer before they are trimmed; returns how many were too short.

    A driver that restarts takes half a minute, and the events of that time must still be there, as
    must those that come while a round lasts: each stream has room for several times as many as it
    got since the offsets before. Where payloads are kept, the queues are marked as followed, up to
    the offsets reached.
    """
    streams = Streams(events)
    limits: dict[str, tuple[str, int]] = {}
    with faults.translated():
        for stream in streams.now():
            if (find := product_named(stream.product).stream_limit) is not None:
                key, field = find(*events.place_of(stream.product, stream.queue))
                limits[key] = field, _room(stream, reached, before)
        if keeps_payloads:
            _mark_followed(streams, events, reached)
        return _raise_limits(streams.store, limits)


def _room(stream: EventStream, reached: Mapping[str, Offset], before: Mapping[str, Offset]) -> int:
    """The most entries that a stream should hold."""
    here = reached.get(stream.key)
    grown = here and StreamRange(stream, before.get(stream.key, here), here).size
    return max(STREAM_LIMIT, min(ROOM * (grown or 0), MOST_ROOM))


def _mark_followed(streams: Streams, events: EventOptions, reached: Mapping[str, Offset]) -> None:
    queues: dict[str, int | None] = {}
    for stream in streams.now():
        prefix, queue = events.place_of(stream.product, stream.queue)
        if stream.product == Product.BULLMQ.value:
            here = reached.get(stream.key)
            queues[QueueKeys(queue, prefix=prefix).meta] = None if here is None else here.order[0]
        elif (key_of := product_named(stream.product).followed_key) is not None:
            key = key_of(prefix)
            streams.store.at(key).set(key, "1", px=FOLLOWED_MS)
    mark_followed(streams.store, queues)


def _raise_limits(store: Store, limits: Mapping[str, tuple[str, int]]) -> int:
    """Write the limits that are too low; returns how many were."""
    present = store.ask(
        {key: ("HGET", key, field) if field else ("GET", key) for key, (field, _) in limits.items()}
    )
    # Other programs may have written something else than a number there.
    low = {
        key: ("HSET", key, field, wanted) if field else ("SET", key, wanted)
        for key, (field, wanted) in limits.items()
        if not (present[key] and present[key].isdigit() and int(present[key]) >= wanted)
    }
    store.ask(low)
    return len(low)


def mark_followed(store: Store, queues: Mapping[str, int | None]) -> None:
    """Mark BullMQ queues as followed: by the key of their settings, how far they were stored."""
    unknown = [key for key, reached_ms in queues.items() if reached_ms is None]
    before = store.ask({key: ("HGET", key, FIELD) for key in unknown})
    until_ms = int(time.time() * 1000) + FOLLOWED_MS
    reached = {key: _number(before[key]) if ms is None else ms for key, ms in queues.items()}
    store.ask({key: ("HSET", key, FIELD, f"{ms}:{until_ms}") for key, ms in reached.items()})


def _number(mark: bytes | None) -> int:
    reached = (mark or b"0").partition(b":")[0]
    return int(reached) if reached.isdigit() else 0

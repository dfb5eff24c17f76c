"""Runs: events into bronze, bronze into silver, silver into gold, recommendations to the queues."""

import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from waystation.core.durations import Duration, milliseconds, seconds
from waystation.core.errors import HistoryCut, InvalidOption
from waystation.core.events import Product
from waystation.core.store import faults
from waystation.files.options import Layout
from waystation.pipeline.bronze import commits, ingest
from waystation.pipeline.bronze.following import raise_stream_limits
from waystation.pipeline.bronze.ingest import Ingest
from waystation.pipeline.feedback import write_models, write_recommendations
from waystation.pipeline.gold.staffing import DEFAULT_TARGET_MS
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import compact_where_needed
from waystation.pipeline.maintenance.erasure import first_day_kept, retain_payloads
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.products.facts import OpenIds
from waystation.pipeline.products.files import open_files
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import gold_tables
from waystation.pipeline.refresh.fold import APPLICATION, rows_to_fold
from waystation.pipeline.refresh.quality import last_checks
from waystation.pipeline.refresh.snapshot import Snapshot, take_snapshot
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.sources.offsets import (
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
    gold_tables.fold(history, target_ms=target_ms)
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

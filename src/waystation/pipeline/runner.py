"""Runs: events into bronze, bronze into silver, silver into gold, recommendations to the queues."""

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from waystation.core.durations import Duration, milliseconds, seconds
from waystation.core.events import Line
from waystation.core.store import faults
from waystation.files.options import Layout
from waystation.pipeline.bronze import commits, ingest
from waystation.pipeline.bronze.ingest import Ingest
from waystation.pipeline.bronze.intake import Intake, IntakeLoop
from waystation.pipeline.feedback.recommendations import write_recommendations
from waystation.pipeline.feedback.wait_models import write_models
from waystation.pipeline.gold.capacity import DEFAULT_TARGET_MS
from waystation.pipeline.history import History, is_left_to_spark
from waystation.pipeline.maintenance.compaction import compact_where_needed
from waystation.pipeline.maintenance.erasure import first_day_kept, retain_payloads
from waystation.pipeline.payloads.followed import mark_followed
from waystation.pipeline.payloads.options import PayloadSettings
from waystation.pipeline.products import product_named
from waystation.pipeline.products.facts import OpenIds
from waystation.pipeline.products.files import open_files
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import gold_sums, gold_tables
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.refresh.quality import last_checks
from waystation.pipeline.refresh.snapshot import Snapshot, take_snapshot
from waystation.pipeline.sources.offsets import Offset
from waystation.pipeline.sources.store import Store, url_of, url_option
from waystation.pipeline.sources.stream_ends import end_of
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.spark.errors import translated
from waystation.pipeline.storage import changes
from waystation.pipeline.storage.opened import kept_open
from waystation.pipeline.tables import EVENTS

NOTHING_READ: Mapping[str, Offset] = MappingProxyType({})
STREAM_LIMIT = 100_000
"""Most entries of a stream while it is followed: about 9 MB."""


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
    batch_every: Duration = 5.0
    """Time between two batches of events, for `follow`."""
    refresh_every: Duration = 30.0
    """Time between two refreshes of silver and gold, for `follow`."""

    def __post_init__(self) -> None:
        seconds(self.target_wait, "target_wait", above=0)
        seconds(self.batch_every, "batch_every", above=0)
        seconds(self.refresh_every, "refresh_every")


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
    progress = progress or NoProgress()
    began = time.monotonic()
    with kept_open():
        raise_stream_limits(options.events, keeps_payloads=options.payloads.keep)
        snapshot = _snapshot(history, options, progress)
        progress.begin("reading events")
        intake = Intake(history.root, options.events, options.payloads)
        stored = _store(history, options, intake, progress)
        recommendations = _refresh(history, options, snapshot, progress)
        return _result(history, stored, recommendations, began)


@translated()
def follow(
    history: History,
    options: RunOptions,
    stop: threading.Event,
    progress: Progress | None = None,
    on_round: Callable[[RunResult], None] = lambda _: None,
) -> None:
    """Store events and refresh tables until `stop` is set; then fold what was read, and return.

    Reading does not wait for refreshes, because entries that are read late may be trimmed by then.
    """
    progress = progress or NoProgress()
    counted = 0
    with _following(history, options) as reading:
        while not stop.is_set() and reading.is_running():
            began = time.monotonic()
            # By the clock: a queue may be quiet for days, or have been created since.
            raise_stream_limits(
                options.events,
                keeps_payloads=options.payloads.keep,
                reached=commits.offsets_in(history.root),
            )
            snapshot = _snapshot(history, options, progress)
            _wait_for(snapshot, history, reading, stop, progress)
            if stop.is_set():
                break
            with kept_open():
                recommendations = _refresh(history, options, snapshot, progress)
                result = _result(history, reading.events - counted, recommendations, began)
            on_round(result)
            counted = reading.events
            stop.wait(max(0.0, seconds(options.refresh_every) - (time.monotonic() - began)))
        progress.begin("finishing the present batch")
    fold(history)


def _store(history: History, options: RunOptions, intake: Intake, progress: Progress) -> int:
    """Store what the streams hold now: in this process, or with Spark; returns how many events."""
    ranges = intake.ranges()
    few = sum(span.size for span in ranges) < history.spark_from
    if few or not ranges or not is_left_to_spark(history):
        return intake.store()
    reading = _with_spark(history, options)
    with _stopped(reading):
        while reading.is_running():
            progress.reach(reading.events)
            reading.wait(1)
    intake.mark(ranges)
    return reading.events


@contextmanager
def _following(history: History, options: RunOptions) -> Generator[Ingest | IntakeLoop]:
    """Store events batch after batch, until the block ends."""
    raise_stream_limits(options.events, keeps_payloads=options.payloads.keep)
    reading = _reading(history, options)
    with _stopped(reading):
        yield reading


def _reading(history: History, options: RunOptions) -> Ingest | IntakeLoop:
    """Start to store events batch after batch."""
    every = seconds(options.batch_every)
    if history.spark_from or not is_left_to_spark(history):
        intake = Intake(history.root, options.events, options.payloads)
        round_of = partial(_store, history, options, progress=NoProgress())
        return IntakeLoop(intake, every=every, round_of=round_of)
    return _with_spark(history, options, every=f"{every} seconds")


def _with_spark(history: History, options: RunOptions, *, every: str | None = None) -> Ingest:
    return ingest.start(
        history.spark,
        history.root,
        payloads=options.payloads,
        every=every,
        **_source_options(history, options.events),
    )


def raise_stream_limits(
    events: EventOptions,
    limit: int = STREAM_LIMIT,
    *,
    keeps_payloads: bool = True,
    reached: Mapping[str, Offset] = NOTHING_READ,
) -> int:
    """Let the streams grow longer before they are trimmed; returns how many were too short.

    A driver that restarts takes half a minute, and the events of that time must still be there.
    Where payloads are kept, the queues are marked as followed, up to the offsets reached.
    """
    with faults.translated():
        return _raise_limits(Streams(events), events, limit, reached if keeps_payloads else None)


def _raise_limits(
    streams: Streams, events: EventOptions, limit: int, marked: Mapping[str, Offset] | None
) -> int:
    short = 0
    for stream in streams.now():
        facts, place = product_named(stream.line), events.place_of(stream.line, stream.queue)
        if marked is not None and stream.line == Line.BULLMQ.value:
            read_to = marked.get(stream.key)
            reached_ms = None if read_to is None else read_to.order[0]
            mark_followed(streams.store.at(stream.key), *place, reached_ms=reached_ms)
        if facts.stream_limit is None:
            continue
        key, field = facts.stream_limit(*place)
        client: Any = streams.store.at(key)
        present = client.hget(key, field) if field else client.get(key)
        if int(present or 0) < limit:
            _ = client.hset(key, field, limit) if field else client.set(key, limit)
            short += 1
    return short


def _snapshot(history: History, options: RunOptions, progress: Progress) -> Snapshot:
    progress.begin("taking a snapshot of the queues")
    is_first = changes.version(EVENTS.path(history.root)) is None
    open_ids: dict[str, OpenIds] = {}
    if (layout := options.files_layout) is not None:
        open_ids[Line.FILES.value] = lambda client, _, __: open_files(client, layout)
    return take_snapshot(options.events, is_first=is_first, open_ids=open_ids)


def _refresh(history: History, options: RunOptions, snapshot: Snapshot, progress: Progress) -> int:
    """Refresh silver and gold; returns the number of recommendations written."""
    progress.begin("folding events into attempts and items")
    target_ms = milliseconds(options.target_wait)
    if gold_sums.is_used(history):
        # What a run before has folded and not counted: this fold leaves its own changes.
        gold_sums.catch_up(history, target_ms=target_ms)
    fold(history)
    fresh = history.fresh()
    gold_tables.refresh(fresh, snapshot, target_ms=target_ms, progress=progress)
    compact_where_needed(history.root)
    retain_payloads(history.root, first_day_kept(options.payloads.retain, snapshot.at.date()))
    if not options.write_back:
        return 0
    progress.begin("writing recommendations")
    store = Store(url_of(options.events.url, options.events.url_env))
    written = write_recommendations(fresh, store, snapshot.at, options.events)
    return written + write_models(fresh, store, snapshot.at)


def _result(history: History, events: int, recommendations: int, began: float) -> RunResult:
    failed = tuple(str(check) for check in last_checks(history.root) if not check.passed)
    return RunResult(events, recommendations, time.monotonic() - began, failed)


@contextmanager
def _stopped(reading: Ingest | IntakeLoop) -> Generator[None]:
    """Stop the reading after the block; an error of the block comes first."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            reading.stop()
        raise
    reading.stop()


def _wait_for(
    snapshot: Snapshot,
    history: History,
    reading: Ingest | IntakeLoop,
    stop: threading.Event,
    progress: Progress,
) -> None:
    """Wait until bronze holds all events that the streams had at the snapshot, and still have."""
    progress.begin("reading events")
    while reading.is_running() and not stop.is_set():
        here = commits.offsets_in(history.root)
        behind = {
            stream: end
            for stream, end in snapshot.ends.items()
            if stream not in here or here[stream].order < end.order
        }
        if not any(_may_come(snapshot, stream, end) for stream, end in behind.items()):
            return
        progress.reach(reading.events)
        stop.wait(0.5)


def _may_come(snapshot: Snapshot, stream: str, end: Offset) -> bool:
    """Whether a stream still reaches an offset; one that was deleted may never do so again."""
    with faults.translated():
        now = end_of(snapshot.store.at(stream), stream)
    return now is not None and now.order >= end.order


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

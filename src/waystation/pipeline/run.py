"""Runs: events into bronze, bronze into silver, silver into answers, answers back to the queues."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import msgspec

from waystation.pipeline.bronze import ingest, reconciled_events
from waystation.pipeline.bronze.ingest import Intake
from waystation.pipeline.feedback import recommendations, wait_models
from waystation.pipeline.gold.capacity import TARGET_WAIT_MS
from waystation.pipeline.history import History
from waystation.pipeline.maintenance import compaction
from waystation.pipeline.products import line_named
from waystation.pipeline.refresh import gold_tables
from waystation.pipeline.refresh.checks import checked
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.refresh.snapshot import Look, look
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.store import Store, url_of, url_options
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.spark.errors import in_our_words
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.tables import EVENTS

ROOM = 100_000
"""Entries that a stream may hold while it is followed: about 9 MB."""


class Watch(Protocol):
    """Hears how far a run is."""

    def begin(self, what: str, total: int | None = None) -> None:
        """Something begins that has so many parts, if that is known."""
        ...

    def reach(self, done: int) -> None:
        """So many parts of it are done."""
        ...


class Silence:
    """Hears and says nothing."""

    def begin(self, what: str, total: int | None = None) -> None:
        """Say nothing."""

    def reach(self, done: int) -> None:
        """Say nothing."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may be told."""

    events: EventOptions
    target_ms: int = TARGET_WAIT_MS
    """The wait that workers are planned for."""
    advise: bool = True
    """Whether the queues are told what came of it."""
    every_s: float = 5.0
    """Seconds between two batches of a run that goes on."""
    answer_every_s: float = 30.0
    """Seconds between two rounds of answers."""


class Ran(msgspec.Struct, frozen=True):
    """What came of one round."""

    events: int
    """Rows that bronze has gained."""
    recommendations: int
    """Pieces of recommendations that were put back."""
    seconds: float
    ill: tuple[str, ...] = ()
    """Checks of the tables that failed, each in a line."""


@in_our_words()
def once(history: History, options: RunOptions, watch: Watch | None = None) -> Ran:
    """Take everything that is there now, and bring every answer up to it."""
    watch = watch or Silence()
    began = time.monotonic()
    make_room(options.events)
    seen = _looked(history, options, watch)
    watch.begin("reading events")
    reading = ingest.follow(history.spark, history.root, **_asked(history, options.events))
    with _ended(reading):
        while reading.goes_on():
            watch.reach(reading.events)
            reading.wait(1)
    recommendations = _answered(history, options, seen, watch)
    return _ran(history, reading.events, recommendations, began)


@in_our_words()
def follow(
    history: History,
    options: RunOptions,
    stop: threading.Event,
    watch: Watch | None = None,
    told: Callable[[Ran], None] = lambda _: None,
) -> None:
    """Go on until asked to stop; what was read by then is folded before this returns.

    Reading does not wait for folding, because what is read late may be trimmed by then.
    """
    watch = watch or Silence()
    make_room(options.events)
    reading = ingest.follow(
        history.spark,
        history.root,
        every=f"{options.every_s} seconds",
        **_asked(history, options.events),
    )
    told_of = 0
    with _ended(reading):
        while not stop.is_set() and reading.goes_on():
            began = time.monotonic()
            seen = _looked(history, options, watch)
            _until_read(history, seen, reading, stop, watch)
            if stop.is_set():
                break
            recommendations = _answered(history, options, seen, watch)
            told(_ran(history, reading.events - told_of, recommendations, began))
            told_of = reading.events
            stop.wait(max(0.0, options.answer_every_s - (time.monotonic() - began)))
        watch.begin("ending the batch under way")
    fold(history)


def make_room(events: EventOptions, room: int = ROOM) -> int:
    """Let streams that are followed get longer before they are trimmed; how many were too short.

    A driver that is started again takes half a minute, and what is told meanwhile must still be
    there.
    """
    streams = Streams(events)
    short = 0
    for told in streams.now():
        facts = line_named(told.line)
        if facts.room is None:
            continue
        key, field = facts.room(events.prefix or facts.prefix, told.queue)
        client: Any = streams.store.at(key)
        kept = client.hget(key, field) if field else client.get(key)
        if int(kept or 0) < room:
            _ = client.hset(key, field, room) if field else client.set(key, room)
            short += 1
    return short


def _looked(history: History, options: RunOptions, watch: Watch) -> Look:
    watch.begin("looking at the queues")
    is_first = changes.version(EVENTS.place(history.root)) is None
    return look(history.spark, options.events, is_first=is_first)


def _answered(history: History, options: RunOptions, seen: Look, watch: Watch) -> int:
    watch.begin("folding events into attempts and items")
    fold(history)
    fresh = History(history.spark, history.root)
    names = [answer.table.name for answer in gold_tables.every()]
    watch.begin("answering", len(names))
    gold_tables.refresh(
        fresh,
        seen,
        target_ms=options.target_ms,
        told=lambda name: watch.reach(names.index(name)),
    )
    watch.reach(len(names))
    reconciled_events.removed(history.root, seen.removed, seen.at)
    compaction.tidy(history.root)
    if not options.advise:
        return 0
    watch.begin("telling the queues")
    store = Store(url_of(options.events.url, options.events.url_env))
    return recommendations.advise(fresh, store, seen.at) + wait_models.advise(fresh, store, seen.at)


def _ran(history: History, events: int, recommendations: int, began: float) -> Ran:
    fresh = History(history.spark, history.root)
    ill = tuple(str(check) for check in checked(fresh) if not check.well)
    return Ran(events, recommendations, time.monotonic() - began, ill)


@contextmanager
def _ended(reading: Intake) -> Generator[None]:
    """End the reading with whatever is done inside; what went wrong inside comes first."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            reading.stop()
        raise
    reading.stop()


def _until_read(
    history: History, seen: Look, reading: Intake, stop: threading.Event, watch: Watch
) -> None:
    """Wait until bronze holds all that had been told when somebody looked."""
    watch.begin("reading events")
    while reading.goes_on() and not stop.is_set():
        noted = delta.last_notes(EVENTS.place(history.root), ingest.PLACES)
        here = offsets.read(noted) if noted else {}
        behind = [
            stream
            for stream, end in seen.ends.items()
            if stream not in here or here[stream].order < end.order
        ]
        if not behind:
            return
        watch.reach(reading.events)
        stop.wait(0.5)


def _asked(history: History, events: EventOptions) -> dict[str, str]:
    """Options as Spark takes them."""
    given = msgspec.to_builtins(events, str_keys=True)
    shown = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        # The last two are bronze's own business.
        if name not in ("url", "urlEnv", "starting", "accounts")
    }
    return {**shown, **url_options(history.spark, events.url, events.url_env)}

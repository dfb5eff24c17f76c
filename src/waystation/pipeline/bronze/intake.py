"""Intake: event streams into the bronze tables by this process, without Spark.

A round reads from the offsets in the tables to the present ends of the streams, and commits both
at once. A round that another driver has overtaken adds nothing, and begins again.
"""

from deltalake.exceptions import CommitFailedError

from waystation.core.errors import CheckpointDamaged
from waystation.core.events import Line
from waystation.core.store import faults
from waystation.pipeline.bronze import commits
from waystation.pipeline.bronze.commits import INTAKE
from waystation.pipeline.bronze.reading import read_ranges
from waystation.pipeline.payloads.followed import mark_followed
from waystation.pipeline.payloads.options import PayloadSettings
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.offsets import StreamRange
from waystation.pipeline.sources.stream_ends import end_of
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.opened import opened
from waystation.pipeline.tables import EVENTS

TRIES = 20
"""Rounds that other drivers may overtake before this one gives up."""


class Intake:
    """Reads the streams that the options select into the tables of a history."""

    def __init__(
        self, root: str, options: EventOptions, payloads: PayloadSettings | None = None
    ) -> None:
        self._root = root
        self._options = options
        self._payloads = payloads or PayloadSettings(keep=False)
        self._streams = Streams(options)
        self.events = 0
        """Events stored so far."""

    def pending(self) -> int:
        """Entries that are not stored yet."""
        return sum(span.size for span in self.ranges())

    def store(self) -> int:
        """Store what the streams hold now; returns how many events."""
        for left in reversed(range(TRIES)):
            try:
                stored = self._round()
            except (CheckpointDamaged, CommitFailedError):
                if not left:
                    raise
                continue
            if stored is not None:
                self.events += stored
                return stored
        return 0

    def _round(self) -> int | None:
        """One round; None when another driver has committed the same number first."""
        path = EVENTS.path(self._root)
        known = opened(path)
        number = 1 if known is None else commits.number_of(known) + 1
        ranges = self.ranges()
        if not ranges:
            return 0
        read = read_ranges(self._root, self._streams.store, self._options, self._payloads, ranges)
        if not commits.store(self._root, read.parts, read.reports, BatchId(INTAKE, number)):
            return None
        self.mark(ranges)
        self._trim(ranges)
        return read.events

    def mark(self, ranges: list[StreamRange]) -> None:
        """Mark in the queues how far their events are stored."""
        for span in ranges if self._payloads.keep else ():
            stream = span.stream
            if stream.line == Line.BULLMQ.value:
                place = self._options.place_of(stream.line, stream.queue)
                reached_ms = offsets.id_order(span.until.id)[0]
                with faults.translated():
                    client = self._streams.store.at(stream.key)
                    mark_followed(client, *place, reached_ms=reached_ms)

    def ranges(self) -> list[StreamRange]:
        """The ranges of streams that are not stored yet."""
        with faults.translated():
            streams = self._streams.now()
            ends = {
                each.key: end_of(self._streams.store.at(each.key), each.key) for each in streams
            }
        there = {stream: end for stream, end in ends.items() if end is not None}
        here = commits.offsets_in(self._root)
        return offsets.between(here, there, [each for each in streams if each.key in there])

    def _trim(self, ranges: list[StreamRange]) -> None:
        """Trim the streams behind what is stored, with the option `trim`."""
        if not self._options.trim:
            return
        with faults.translated():
            for span in ranges:
                client = self._streams.store.at(span.stream.key)
                until = offsets.next_id(span.until.id)
                client.execute_command("XTRIM", span.stream.key, "MINID", "~", until)

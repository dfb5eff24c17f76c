"""Event streams that options select."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from waystation.core.errors import InvalidOption
from waystation.pipeline.options import at_least, split_list
from waystation.pipeline.sources.offsets import EventStream
from waystation.pipeline.sources.store import URL_VARIABLE, Store, url_of
from waystation.pipeline.stream_names import ALL_QUEUES, STREAM_NAMES, streams_of


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of every source that reads streams."""

    url: str = ""
    """URL of the store. `urlEnv` is safer: options appear in query plans and logs."""
    url_env: str = URL_VARIABLE
    """Environment variable that holds the URL when `url` is empty."""
    starting: str = "earliest"
    """`earliest`, `latest`, or offsets as JSON; used only while there is no checkpoint."""
    per_trigger: int = 0
    """Most entries in one batch; 0 means no limit."""
    tasks: int = 0
    """Most tasks that read at once; 0 means one per processor."""
    page: int = 1000
    """Entries in one reply of the server."""
    trim: bool = False
    """Trim the streams behind every finished batch."""
    accounts: bool = False
    """Report on every range that was read with a row that has `_range`, not only on ranges with a
    gap."""
    look_every: float = 30.0
    """Seconds between two key scans for streams that match a pattern."""

    def __post_init__(self) -> None:
        at_least("perTrigger", self.per_trigger, 0)
        at_least("tasks", self.tasks, 0)
        at_least("page", self.page, 1)
        if self.starting not in ("earliest", "latest") and not self.starting.startswith("{"):
            raise InvalidOption(
                f"starting must be earliest, latest or offsets as JSON, got {self.starting!r}"
            )


class EventOptions(StreamOptions, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.events`."""

    lines: str = ",".join(STREAM_NAMES)
    """Products, separated by commas."""
    queues: str = "*"
    """Names and patterns, separated by commas; names alone need no key scan.

    Where all queues of a product share one stream, all of them are read.
    """
    prefix: str = ""
    """Key prefix of all products, or of some: `bullmq=shop,routing=edge`. Those that are not named
    have their default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for line in (*split_list(self.lines), *self._prefixes):
            streams_of(line)

    def prefix_of(self, line: str) -> str:
        """The key prefix of a product."""
        for_all = "" if "=" in self.prefix else self.prefix
        return for_all or self._prefixes.get(line) or streams_of(line).prefix

    @property
    def _prefixes(self) -> dict[str, str]:
        """The prefixes that are given for one product each."""
        pairs = (each.partition("=") for each in split_list(self.prefix))
        return {line: prefix for line, found, prefix in pairs if found}


class AnyStreamOptions(StreamOptions, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.streams`."""

    streams: str
    """Keys and patterns of streams, separated by commas; keys alone need no key scan."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not split_list(self.streams):
            raise InvalidOption("streams must name at least one stream or pattern, got none")


class Selected(ABC):
    """The streams that options select; patterns are resolved every `lookEvery` seconds."""

    def __init__(self, options: StreamOptions) -> None:
        self._every = options.look_every
        self.store = Store(url_of(options.url, options.url_env))
        self._found: list[EventStream] | None = None
        self._looked = 0.0

    def now(self) -> list[EventStream]:
        """The streams as they are now."""
        if self._found is None or time.monotonic() - self._looked > self._every:
            self._found = sorted(set(self._look()))
            self._looked = time.monotonic()
        return self._found

    def known(self, streams: Iterable[str]) -> list[EventStream]:
        """The streams with these keys."""
        return [found for stream in streams if (found := self._parsed(stream))]

    @abstractmethod
    def _look(self) -> Iterator[EventStream]: ...

    @abstractmethod
    def _parsed(self, stream: str) -> EventStream | None: ...

    def _matching(self, pattern: str) -> Iterator[EventStream]:
        client = cast(Any, self.store.client)
        for key in client.scan_iter(match=pattern, count=1000, _type="stream"):
            if found := self._parsed(key.decode("utf-8", "backslashreplace")):
                yield found


class AnyStreams(Selected):
    """Streams of any program, by their keys."""

    def __init__(self, options: AnyStreamOptions) -> None:
        super().__init__(options)
        self._wanted = split_list(options.streams)

    def _look(self) -> Iterator[EventStream]:
        for each in self._wanted:
            if _is_pattern(each):
                yield from self._matching(each)
            else:
                yield self._parsed(each)

    def _parsed(self, stream: str) -> EventStream:
        return EventStream("", stream, stream)


class Streams(Selected):
    """The event streams of our products."""

    def __init__(self, options: EventOptions) -> None:
        super().__init__(options)
        self._options = options

    def _look(self) -> Iterator[EventStream]:
        wanted = split_list(self._options.queues)
        for line in split_list(self._options.lines):
            names = streams_of(line)
            prefix = self._options.prefix_of(line)
            patterns = [each for each in wanted if _is_pattern(each)]
            if names.has_one_stream:
                yield EventStream(line, ALL_QUEUES, names.key(prefix, ALL_QUEUES))
                continue
            yield from (
                EventStream(line, queue, names.key(prefix, queue))
                for queue in wanted
                if not _is_pattern(queue)
            )
            for pattern in patterns:
                yield from self._matching(names.key(prefix, pattern))

    def _parsed(self, stream: str) -> EventStream | None:
        for line in split_list(self._options.lines):
            names = streams_of(line)
            whole = names.key(self._options.prefix_of(line), "\0")
            if names.has_one_stream:
                if stream == whole:
                    return EventStream(line, ALL_QUEUES, stream)
                continue
            before, after = whole.split("\0")
            if stream.startswith(before) and stream.endswith(after):
                queue = stream[len(before) : len(stream) - len(after)]
                # A colon in between would make it some other key.
                if queue and ":" not in queue:
                    return EventStream(line, queue, stream)
        return None


def _is_pattern(queue: str) -> bool:
    return any(sign in queue for sign in "*?[")

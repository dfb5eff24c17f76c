"""Which streams are meant, and how they are read."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec
from pyspark.sql.datasource import InputPartition

from waystation.core.errors import InvalidOption
from waystation.pipeline.options import at_least, listed
from waystation.pipeline.products import LINES, line_named
from waystation.pipeline.products.facts import EVERY_QUEUE
from waystation.pipeline.sources.offsets import Stretch, Told
from waystation.pipeline.sources.redis_streams import rows_of
from waystation.pipeline.sources.store import URL_VARIABLE, Store, url_of
from waystation.pipeline.storage.arrow import Batch

LEAST_ROWS_A_TASK = 20_000
"""Starting a task costs as much as reading some thousand rows."""


class EventOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.events`."""

    url: str = ""
    """Address of the store; better left to `urlEnv`, because options end up in plans and logs."""
    url_env: str = URL_VARIABLE
    """The environment variable that holds the address when `url` does not."""
    lines: str = ",".join(LINES)
    """Which products' streams, separated by commas."""
    queues: str = "*"
    """Names and patterns, separated by commas; names alone need no search for keys.

    A line whose queues share one stream is followed whole.
    """
    prefix: str = ""
    """What the keys start with; empty means each line's own."""
    starting: str = "earliest"
    """`earliest`, `latest`, or offsets as JSON; counts only until there is a checkpoint."""
    per_trigger: int = 0
    """Most events in one batch; 0 takes all there are."""
    tasks: int = 0
    """Most tasks that read at once; 0 means one for each processor."""
    page: int = 1000
    """Entries that the server sends in one go."""
    trim: bool = False
    """Remove from the streams what a finished batch holds."""
    accounts: bool = False
    """Whether every stretch of a stream that was read gets a row with `_range`, not only one with a
    gap."""
    look_every: float = 30.0
    """Seconds between two searches for streams that match a pattern."""

    def __post_init__(self) -> None:
        at_least("perTrigger", self.per_trigger, 0)
        at_least("tasks", self.tasks, 0)
        at_least("page", self.page, 1)
        for line in listed(self.lines):
            line_named(line)
        if self.starting not in ("earliest", "latest") and not self.starting.startswith("{"):
            raise InvalidOption(
                f"starting must be earliest, latest or offsets as JSON, got {self.starting!r}"
            )


class Streams:
    """The streams that the options mean; patterns are looked up now and then, not every time."""

    def __init__(self, options: EventOptions) -> None:
        self._options = options
        self.store = Store(url_of(options.url, options.url_env))
        self._found: list[Told] | None = None
        self._looked = 0.0

    def now(self) -> list[Told]:
        """The streams as they are known now."""
        if self._found is None or time.monotonic() - self._looked > self._options.look_every:
            self._found = sorted(set(self._look()))
            self._looked = time.monotonic()
        return self._found

    def known(self, streams: Iterable[str]) -> list[Told]:
        """The streams with these keys."""
        return [told for stream in streams if (told := self._told(stream))]

    def _look(self) -> Iterator[Told]:
        wanted = listed(self._options.queues)
        for line in listed(self._options.lines):
            facts = line_named(line)
            prefix = self._options.prefix or facts.prefix
            patterns = [each for each in wanted if _is_pattern(each)]
            if facts.has_one_stream:
                yield Told(line, EVERY_QUEUE, facts.stream(prefix, EVERY_QUEUE))
                continue
            yield from (
                Told(line, queue, facts.stream(prefix, queue))
                for queue in wanted
                if not _is_pattern(queue)
            )
            for pattern in patterns:
                match = facts.stream(prefix, pattern)
                client = cast(Any, self.store.client)
                for key in client.scan_iter(match=match, count=1000, _type="stream"):
                    if told := self._told(key.decode("utf-8", "backslashreplace")):
                        yield told

    def _told(self, stream: str) -> Told | None:
        for line in listed(self._options.lines):
            facts = line_named(line)
            whole = facts.stream(self._options.prefix or facts.prefix, "\0")
            if facts.has_one_stream:
                if stream == whole:
                    return Told(line, EVERY_QUEUE, stream)
                continue
            before, after = whole.split("\0")
            if stream.startswith(before) and stream.endswith(after):
                queue = stream[len(before) : len(stream) - len(after)]
                # A colon in between would make it some other key.
                if queue and ":" not in queue:
                    return Told(line, queue, stream)
        return None


class Share(InputPartition):
    """The stretches that one task reads."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        super().__init__(None)
        self.stretches = stretches


def rows(
    store: Store, options: EventOptions, partition: InputPartition, accounts: bool
) -> Iterator[Batch]:
    """The rows of one task's stretches."""
    for stretch in cast(Share, partition).stretches:
        client = store.at(stretch.told.stream)
        yield from rows_of(client, stretch, page=options.page, accounts=accounts)


def _is_pattern(queue: str) -> bool:
    return any(sign in queue for sign in "*?[")

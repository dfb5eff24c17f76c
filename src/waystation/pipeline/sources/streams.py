"""Event streams that options select."""

import fnmatch
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, cast

import msgspec

from waystation.bullmq.redis.prefixes import Prefixes, check_several
from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.core.options import check_fields
from waystation.core.store.keyspace import is_name
from waystation.core.telemetry.logs import get_logger
from waystation.pipeline.options import at_least, split_list
from waystation.pipeline.product_keys import ALL_QUEUES, STREAM_NAMES, streams_of
from waystation.pipeline.sources.offsets import EventStream, Offset
from waystation.pipeline.sources.store import URL_VARIABLE, Store, ends_of, url_of

_log = get_logger(__name__)


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
    """Most tasks that read at once; 0 means one per processor of the driver's machine. A stream
    with more entries than a task's share, and than 20,000, is read by several tasks when it is read
    once; one that is followed is read by one task, in its order."""
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
        check_fields(self)
        at_least("perTrigger", self.per_trigger, 0)
        at_least("tasks", self.tasks, 0)
        at_least("page", self.page, 1)
        if self.starting not in ("earliest", "latest") and not self.starting.startswith("{"):
            raise InvalidOption(
                f"starting must be earliest, latest or offsets as JSON, got {self.starting!r}"
            )


class EventOptions(StreamOptions, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.events`."""

    products: str = ",".join(STREAM_NAMES)
    """Products, separated by commas."""
    queues: str = "*"
    """Names and patterns, separated by commas; names alone need no key scan.

    Where all queues of a product share one stream, all of them are read.
    """
    prefix: str = ""
    """Key prefix of all products, or of some: `bullmq=shop,routing=edge`. Those that are not named
    have their default. `bullmq` may have several: `bullmq=bull,bullmq=trial`; queues under the
    first keep their names, others are called `trial:mail`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        products = split_list(self.products)
        for product in (*products, *_prefixes_in(self.prefix)):
            streams_of(product)
        _, *others = self.prefixes_of(Product.BULLMQ.value)
        for product in products:
            # Of these two only the order of the products would say whose stream a key is.
            if product != Product.BULLMQ.value and self.prefixes_of(product)[0] in others:
                raise InvalidOption(f"prefix {self.prefixes_of(product)[0]!r} is that of {product}")
        if Product.BULLMQ.value in products:
            for queue in split_list(self.queues):
                if ":" in queue and not _is_pattern(queue):
                    self.place_of(Product.BULLMQ.value, queue)

    def prefixes_of(self, product: str) -> tuple[str, ...]:
        """The key prefixes of a product; only BullMQ can have more than one."""
        return _prefixes_in(self.prefix).get(product) or (streams_of(product).prefix,)

    def place_of(self, product: str, queue: str) -> tuple[str, str]:
        """Key prefix and own name of a queue that is called so in the tables."""
        if product != Product.BULLMQ.value:
            return self.prefixes_of(product)[0], queue
        prefixes = Prefixes(self.prefixes_of(product))
        if (place := prefixes.place_of(queue)) is None:
            raise prefixes.refusal(queue)
        return place

    def knows(self, product: str, queue: str) -> bool:
        """Whether a queue of the tables is under a prefix of these options."""
        return product != Product.BULLMQ.value or (
            Prefixes(self.prefixes_of(product)).place_of(queue) is not None
        )

    def name_of(self, product: str, prefix: str, queue: str) -> str:
        """What a queue under a prefix is called in the tables."""
        if product != Product.BULLMQ.value:
            return queue
        return Prefixes(self.prefixes_of(product)).name_of(prefix, queue)


@cache
def _prefixes_in(text: str) -> Mapping[str, tuple[str, ...]]:
    """The prefixes of each product, as the option `prefix` gives them."""
    parts = split_list(text)
    if len(parts) == 1 and "=" not in text:
        return dict.fromkeys(STREAM_NAMES, (parts[0],))
    named: dict[str, tuple[str, ...]] = {}
    for each in parts:
        product, equals, prefix = each.partition("=")
        if not equals:
            raise InvalidOption(
                "prefix must be one, or name the product of each as in "
                f"bullmq=bull,bullmq=trial; got {text!r}"
            )
        if prefix:
            named[product] = (*named.get(product, ()), prefix)
    for product, prefixes in named.items():
        if len(prefixes) > 1 and product != Product.BULLMQ.value:
            raise InvalidOption(f"only bullmq can have several prefixes, got {text!r}")
        if len(prefixes) > 1:
            check_several(prefixes)
    return named


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

    def ends(self) -> dict[str, Offset]:
        """The ends of these streams, by key."""
        return ends_of(self.store, (each.key for each in self.now()))

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
            if _may_be_name(each):
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
        patterns = [each for each in wanted if _is_pattern(each)]
        for product in split_list(self._options.products):
            names = streams_of(product)
            first, *others = self._options.prefixes_of(product)
            if names.has_one_stream:
                yield EventStream(product, ALL_QUEUES, names.key(first, ALL_QUEUES))
                continue
            yield from (
                EventStream(product, queue, names.key(*self._options.place_of(product, queue)))
                for queue in wanted
                # Only BullMQ has queues under other prefixes, and no name has a colon of its own.
                if _may_be_name(queue) and (":" not in queue or product == Product.BULLMQ.value)
            )
            for pattern in patterns:
                yield from self._matching(names.key(first, pattern))
            for prefix in others if patterns else ():
                for found in self._matching(names.key(prefix, "*")):
                    if any(fnmatch.fnmatchcase(found.queue, each) for each in patterns):
                        yield found

    def _parsed(self, stream: str) -> EventStream | None:
        for product in split_list(self._options.products):
            names = streams_of(product)
            for prefix in self._options.prefixes_of(product):
                whole = names.key(prefix, "\0")
                if names.has_one_stream:
                    if stream == whole:
                        return EventStream(product, ALL_QUEUES, stream)
                    continue
                before, after = whole.split("\0")
                if stream.startswith(before) and stream.endswith(after):
                    queue = stream[len(before) : len(stream) - len(after)]
                    if is_name(queue):
                        name = self._options.name_of(product, prefix, queue)
                        return EventStream(product, name, stream)
                    # A colon in between makes it some other key.
                    if queue and ":" not in queue:
                        _tell_not_followed(product, queue)
        return None


@cache
def _tell_not_followed(product: str, queue: str) -> None:
    """Say once that another program's queue has a name that none of ours can have."""
    _log.warning("queue_not_followed", product=product, queue=queue)


def _is_pattern(queue: str) -> bool:
    return any(sign in queue for sign in "*?[")


def _may_be_name(queue: str) -> bool:
    """Whether it is a name as well: a pattern such as `a[1]` does not find the queue `a[1]`."""
    return not _is_pattern(queue) or not fnmatch.fnmatchcase(queue, queue)

"""Rows into any Redis stream, each key of a batch once."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql.types import MapType, StringType, StructType

from waystation.core.errors import InvalidInput, InvalidOption
from waystation.pipeline.options import at_least, parse
from waystation.pipeline.sources.batch_writer import KEEP_S, BatchWriter, batch_keys, check_limits
from waystation.pipeline.sources.row_writers import RowsWriter
from waystation.pipeline.sources.scripts import StreamKey, append
from waystation.pipeline.sources.store import URL_VARIABLE, Store, url_of

FIELDS = "fields"
"""The column that holds fields of any names."""
MOST_FIELDS = 1000
_NAME = "streams"
_TEXTS = MapType(StringType(), StringType())
_PLAIN = re.compile(r"[^{}\s\x00-\x1f\x7f]*(\{[^{}\s\x00-\x1f\x7f]+\}[^{}\s\x00-\x1f\x7f]*)?")


class StreamWriteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.streams` for writing."""

    stream: str
    """Key of the stream."""
    batch: str
    """Name under which the keys are remembered; a write with the same name resumes one that was
    interrupted."""
    url: str = ""
    """URL of the store. `urlEnv` is safer: options appear in query plans and logs."""
    url_env: str = URL_VARIABLE
    """Environment variable that holds the URL when `url` is empty."""
    most: int = 0
    """Entries that the stream is trimmed to, approximately; 0 means that it is not trimmed."""
    chunk: int = 200
    """Rows in one script call, at most 1000; the server does nothing else meanwhile."""
    keep: int = KEEP_S
    """Seconds that a batch is remembered after the last write."""

    def __post_init__(self) -> None:
        check_limits(keep=self.keep, chunk=self.chunk)
        at_least("most", self.most, 0)
        if not self.stream or not _PLAIN.fullmatch(self.stream):
            raise InvalidOption(
                "the key of a stream to write to must hold no space and no control character, and "
                f"braces only around one hash tag; got {self.stream!r}"
            )
        batch_keys(_NAME, home_of(self.stream), self.batch)


class StreamEncoder:
    """Encodes a row as an entry: each column is a field, and `fields` holds more of them."""

    add = append
    columns = (FIELDS,)
    width = 1

    def __init__(self, stream: str, most: int) -> None:
        self._stream = stream
        self._most = most

    def keys(self, queue: str, prefix: str) -> StreamKey:
        """The stream."""
        return StreamKey(self._stream)

    def leading(self, keys: StreamKey) -> Sequence[str]:
        """The number of entries that the stream is trimmed to."""
        return (str(self._most),)

    def with_setup(self, setup: str) -> "StreamEncoder":
        """Refuse a setup: a stream has none."""
        raise InvalidOption(f"a stream takes no setup, got {setup}")

    def job(self, keys: StreamKey, row: Mapping[str, Any]) -> Sequence[bytes]:
        """Names and values, as JSON; what is null is left out."""
        own = [(name, value) for name, value in row.items() if name not in ("key", FIELDS)]
        pairs = [*own, *(row.get(FIELDS) or ())]
        words = [word for name, value in pairs if value is not None for word in (name, value)]
        if not 0 < len(words) <= 2 * MOST_FIELDS:
            raise InvalidInput(
                f"an entry must have from 1 to {MOST_FIELDS} fields, got {len(words) // 2}"
            )
        return (msgspec.json.encode(words),)


class StreamWriter(RowsWriter):
    """Appends rows to one stream."""

    def __init__(self, options: StreamWriteOptions) -> None:
        super().__init__(Store(url_of(options.url, options.url_env)), chunk=options.chunk)
        self._options = options

    def _batch(self) -> BatchWriter:
        options = self._options
        return BatchWriter(
            StreamEncoder(options.stream, options.most),
            _NAME,
            home_of(options.stream),
            options.batch,
            keep_ms=options.keep * 1000,
        )

    def _client(self) -> Any:
        return self._store.at(self._options.stream)


def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer that options ask for; refuses rows that cannot be entries."""
    options = parse(given, StreamWriteOptions)
    if overwrite:
        raise InvalidOption("rows are appended to a stream, never replaced: use mode('append')")
    if "key" not in schema.names:
        raise InvalidOption(f"wanted the column key, got {', '.join(schema.names)}")
    for column in schema.fields:
        wanted = _TEXTS if column.name == FIELDS else StringType()
        # A map may or may not hold nulls.
        if column.dataType.simpleString() != wanted.simpleString():
            raise InvalidOption(
                f"the column {column.name} must be {wanted.simpleString()}, "
                f"got {column.dataType.simpleString()}"
            )
    return StreamWriter(options)


def home_of(stream: str) -> str:
    """The prefix of what is remembered about a stream: in a cluster it lies on the same node."""
    # No two streams have the same: only one with a tag of its own gets more behind it.
    return f"{stream}:tagged" if "{" in stream else f"{{{stream}}}"

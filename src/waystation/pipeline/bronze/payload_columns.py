"""Columns of `payloads` and `field_values`, made of what was read of jobs.

Values stay bytes until Arrow turns a whole column of them into texts; a single value is looked at
only where a rule, a declared field or something unusual needs it.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from waystation.core.events import Line
from waystation.pipeline.payloads.declared import DeclaredFields
from waystation.pipeline.payloads.options import PayloadSettings
from waystation.pipeline.payloads.rules import QueueRules
from waystation.pipeline.storage.arrow import Array, Batch, Invalid, pa, pc
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import FIELD_VALUES, PAYLOADS

GONE = "it was removed before it could be read"
FIELDS = (
    b"name",
    b"data",
    b"opts",
    b"timestamp",
    b"delay",
    b"priority",
    b"atm",
    b"attemptsMade",
    b"parentKey",
    b"deid",
    b"rjk",
    b"returnvalue",
    b"progress",
    b"failedReason",
    b"stacktrace",
)
"""What is read of a job's hash."""
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the last that Python and SQL can represent."""

_SCHEMA = schema_of(PAYLOADS.schema)
_VALUES_SCHEMA = schema_of(FIELD_VALUES.schema)
_NO_VALUES = pa.RecordBatch.from_pylist([], schema=_VALUES_SCHEMA)
_INSTANT = _SCHEMA.field("read_at").type
# At most 18 characters, which a 64-bit number always holds.
_NUMBER = r"^(-[0-9]{1,17}|[0-9]{1,18})$"

Values: TypeAlias = Sequence[bytes | None]
NOTHING: Values = [None] * len(FIELDS)
"""What a hash that is not there has."""


Pairs: TypeAlias = Sequence[bytes]
"""Names and values of an entry, in turn."""


class Seen(msgspec.Struct, gc=False):
    """Entries of a stream about one job."""

    last: bytes
    """Id of the last one."""
    added: Pairs | None = None
    end: Pairs | None = None
    """How it was completed, or has failed."""
    kept: Pairs | None = None
    """What it was when it was removed."""

    @property
    def millis(self) -> int:
        """When the last one was written."""
        return min(int(self.last.partition(b"-")[0]), LAST_MS)


class ReadJobs:
    """Jobs of one queue, and what was found of each."""

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.seen: list[Seen] = []
        self.found: list[Values] = []
        """Values of `FIELDS`."""
        self.logs: dict[int, list[bytes]] = {}
        """Log lines of those that have some, by position."""

    def extend(
        self,
        subjects: Sequence[bytes],
        seen: Sequence[Seen],
        found: Sequence[Values],
        logs: Mapping[int, list[bytes]] = MappingProxyType({}),
    ) -> None:
        """Add jobs; of one that is gone, what it has left in the stream counts."""
        first = len(self.subjects)
        self.subjects += subjects
        self.seen += seen
        self.found += found
        self.logs |= {first + index: lines for index, lines in logs.items()}
        for index in _gone(found):
            if kept := seen[index].kept:
                left = _said(kept)
                self.found[first + index] = [left.get(name) for name in FIELDS]
                self.logs[first + index] = _log_lines(left.get(b"logs"))
            else:
                self.logs.pop(first + index, None)


class Batches(NamedTuple):
    """Rows of `payloads` and of `field_values`."""

    payloads: Batch
    values: Batch


class PayloadColumns:
    """Turns jobs of one queue into rows, after the rules."""

    def __init__(self, queue: str, settings: PayloadSettings, rules: QueueRules) -> None:
        self._queue = queue
        self._limit = settings.limit
        self._declared = DeclaredFields(settings.fields)
        self._rules = rules

    def batches(self, jobs: ReadJobs) -> Batches:
        """The rows of some jobs, and those of their declared fields."""
        many = len(jobs.subjects)
        left_out: dict[int, str] = {}
        found = dict(zip(FIELDS, zip(*jobs.found, strict=True), strict=True))
        gone = _gone(jobs.found)
        left_out |= dict.fromkeys(gone, GONE)
        data = self._documents("data", found[b"data"], left_out)
        returned = _either(
            found[b"returnvalue"], lambda index: _said(jobs.seen[index].end).get(b"returnvalue")
        )
        result = self._documents("result", returned, left_out)
        names = _either(found[b"name"], lambda index: _said(jobs.seen[index].added).get(b"name"))
        read_at = _instant(pa.array([each.millis for each in jobs.seen], pa.int64()))
        options = _texts(found[b"opts"])
        columns: dict[str, Array] = {
            "line": _repeat(Line.BULLMQ.value, many),
            "queue": _repeat(self._queue, many),
            "subject": _texts(jobs.subjects),
            "read_at": read_at,
            "added_at": _added_at(found[b"timestamp"]),
            "ended": pa.array([bool(each.end or each.kept) for each in jobs.seen]),
            "name": _texts(names),
            "data": data.texts,
            "options": self._options(options, gone),
            "priority": _numbers(found[b"priority"], 2**31, pa.int32()),
            "delay_ms": _numbers(found[b"delay"], 2**62, pa.int64()),
            "attempts": _numbers(
                _either(found[b"atm"], found[b"attemptsMade"].__getitem__), 2**31, pa.int32()
            ),
            "parent": _texts(found[b"parentKey"]),
            "group": _of_options(found[b"opts"], b'"group"', _group),
            "deduplication": _texts(found[b"deid"]),
            "scheduler": _texts(found[b"rjk"]),
            "trace": _of_options(found[b"opts"], b'"tm"', _trace),
            "result": result.texts,
            "progress": self._changed(_texts(found[b"progress"]), self._rules.document),
            "reason": self._changed(_texts(found[b"failedReason"]), self._rules.text),
            "stacktrace": self._changed(_texts(found[b"stacktrace"]), self._rules.text),
            "logs": self._logs(jobs.logs, many),
            "bytes": _sizes(data.sizes, result.sizes, gone),
            "left_out": _sparse(left_out, many, pa.string()),
            "date": read_at.cast(pa.date32()),
        }
        columns["fields"], values = self._fields(data.each, columns)
        return Batches(_batch(columns, _SCHEMA), values)

    def _documents(self, name: str, raw: Values, left_out: dict[int, str]) -> "_Documents":
        """Documents after the rules; one that is too large is left out."""
        column = pa.array(raw, pa.binary())
        sizes = pc.binary_length(column).cast(pa.int64())
        if large := _where(pc.greater(sizes, self._limit)):
            raw = list(raw)
            for index in large:
                whole, raw[index] = raw[index] or b"", None
                digest = hashlib.sha256(whole).hexdigest()
                left_out[index] = f"{name} has {len(whole)} bytes, sha256 {digest}"
            column = pa.array(raw, pa.binary())
        texts = _as_texts(column)
        if self._rules.is_empty:
            return _Documents(texts, sizes, raw)
        changed: list[str | None] = []
        for index, each in enumerate(texts.to_pylist()):
            self._rules.has_lost = False
            changed.append(None if each is None else self._rules.document(each))
            if name == "data" and self._rules.has_lost:
                left_out[index] = "data: changed by a rule"
        return _Documents(pa.array(changed, pa.string()), sizes, changed)

    def _options(self, options: Array, gone: Sequence[int]) -> Array:
        if options.null_count > len(gone):
            options = pc.coalesce(options, "{}")
            options = _without(options, gone) if gone else options
        return self._changed(options, self._rules.document)

    def _changed(self, texts: Array, change: Callable[[str], str]) -> Array:
        if self._rules.is_empty or texts.null_count == len(texts):
            return texts
        changed = [None if each is None else change(each) for each in texts.to_pylist()]
        return pa.array(changed, pa.string())

    def _logs(self, logs: Mapping[int, Sequence[bytes]], many: int) -> Array:
        lines = {
            index: [self._rules.text(_text(each)) for each in some] for index, some in logs.items()
        }
        return _sparse(lines, many, _SCHEMA.field("logs").type)

    def _fields(
        self, documents: Sequence[str | bytes | None], columns: Mapping[str, Array]
    ) -> tuple[Array, Batch]:
        """The declared fields of each job, and the rows of all of them."""
        kind = _SCHEMA.field("fields").type
        if not self._declared:
            return pa.nulls(len(documents), kind), _NO_VALUES
        found = list(map(self._declared.of, documents))
        flat = [pair for each in found for pair in each]
        names = pa.array([name for name, _ in flat], pa.string())
        values = pa.array([value for _, value in flat], pa.string())
        ends = accumulate(map(len, found))
        # A start that is null stands for a job that has none of the fields.
        starts = [end - len(each) if each else None for end, each in zip(ends, found, strict=True)]
        positions = pa.array([*starts, len(flat)], pa.int32())
        whose = pa.array([index for index, each in enumerate(found) for _ in each], pa.int64())
        shared = ("line", "queue", "subject", "read_at", "date")
        rows = {name: columns[name].take(whose) for name in shared}
        return (
            pa.MapArray.from_arrays(positions, names, values, kind),
            _batch({**rows, "field": names, "value": values}, _VALUES_SCHEMA),
        )


class _Documents(NamedTuple):
    """A column of documents: as texts, their sizes before the rules, and as Python values."""

    texts: Array
    sizes: Array
    each: Sequence[str | bytes | None]


def _batch(columns: Mapping[str, Array], schema: Any) -> Batch:
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _texts(values: Values) -> Array:
    return _as_texts(pa.array(values, pa.binary()))


def _as_texts(column: Array) -> Array:
    try:
        return column.cast(pa.string())
    except Invalid:
        texts = [None if each is None else _text(each) for each in column.to_pylist()]
        return pa.array(texts, pa.string())


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _repeat(text: str, times: int) -> Array:
    return pa.repeat(pa.scalar(text, pa.string()), times)


def _sparse(values: Mapping[int, Any], many: int, kind: Any) -> Array:
    """A column that is null but for a few positions."""
    return pa.array(map(values.get, range(many)), kind) if values else pa.nulls(many, kind)


def _where(mask: Array) -> list[int]:
    return pc.indices_nonzero(mask).to_pylist()


def _either(values: Values, other: Callable[[int], bytes | None]) -> Values:
    """Values, with another one where there is none."""
    if None not in values:
        return values
    return [other(index) if each is None else each for index, each in enumerate(values)]


def _said(pairs: Pairs | None) -> dict[bytes, bytes]:
    """An entry's names and values."""
    return dict(zip(pairs[::2], pairs[1::2], strict=True)) if pairs else {}


def _gone(found: Sequence[Values]) -> list[int]:
    """Positions of jobs that are not there."""
    if NOTHING not in found:
        return []
    return [index for index, each in enumerate(found) if each == NOTHING]


def _numbers(values: Values, below: int, kind: Any) -> Array:
    """Whole numbers; what is none, or not below a bound, is null."""
    texts = _texts(values)
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    plain = pc.match_substring_regex(texts, _NUMBER)
    numbers = pc.if_else(plain, texts, None).cast(pa.int64())
    return pc.if_else(pc.less(pc.abs(numbers), below), numbers, None).cast(kind)


def _instant(millis: Array) -> Array:
    return pc.multiply(millis, 1000).cast(_INSTANT)


def _added_at(values: Values) -> Array:
    millis = _numbers(values, LAST_MS, pa.int64())
    return _instant(pc.if_else(pc.greater_equal(millis, 0), millis, None))


def _sizes(data: Array, result: Array, gone: Sequence[int]) -> Array:
    """Bytes of both; null for a job of which there is neither."""
    sizes = pc.add(pc.coalesce(data, 0), pc.coalesce(result, 0))
    unknown = [index for index in gone if not result[index].is_valid]
    return _without(sizes, unknown) if unknown else sizes


def _without(column: Array, positions: Sequence[int]) -> Array:
    """A column that is null at some positions."""
    here = pc.is_in(pa.array(range(len(column))), value_set=pa.array(positions, pa.int64()))
    return pc.if_else(here, None, column)


def _log_lines(raw: bytes | None) -> list[bytes]:
    try:
        found = msgspec.json.decode(raw or b"[]", type=list[str])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
    return [each.encode() for each in found]


class _Group(msgspec.Struct):
    id: str = ""


class _KnownOptions(msgspec.Struct):
    """The options that have columns of their own."""

    tm: str | None = None
    group: _Group | None = None


def _of_options(options: Values, word: bytes, read: Callable[[_KnownOptions], Any]) -> Array:
    """What is read from those options that contain a word; mostly many jobs have the same ones."""
    known: dict[bytes | None, Any] = {
        each: read(_known(each)) for each in set(options) if each and word in each
    }
    if not known:
        return pa.nulls(len(options), pa.string())
    return pa.array(map(known.get, options), pa.string())


def _known(options: bytes) -> _KnownOptions:
    try:
        return msgspec.json.decode(options, type=_KnownOptions)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _KnownOptions()


def _group(options: _KnownOptions) -> str | None:
    return options.group.id if options.group else None


def _trace(options: _KnownOptions) -> str | None:
    """The id in a `traceparent`, which is JSON inside the options."""
    parts = (options.tm or "").partition("traceparent")[2].split("-")
    return parts[1] if len(parts) > 2 and len(parts[1]) == 32 else None

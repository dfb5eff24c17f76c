"""Columns of `payloads` and `field_values`, made of what was read of jobs.

Values stay bytes until Arrow turns a whole column of them into texts; a single value is looked at
only where a rule, a declared field or something unusual needs it.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from waystation.core.events import Product
from waystation.pipeline.payloads.paths import DeclaredFields
from waystation.pipeline.payloads.rules import After, PayloadSettings, QueueRules
from waystation.pipeline.storage.arrow import Array, Batch, Invalid, pa, pc
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import FIELD_VALUES, LAST_MS, PAYLOADS, Form

GONE = "it was removed before it could be read"
REPLACED = "it was replaced before it could be read"
UNREADABLE = "cannot be read, so the rules cannot be applied"
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
    b"finishedOn",
)
"""What is read of a job's hash."""
SKEW_MS = 60_000
"""Milliseconds by which the clock of a producer or worker may be ahead of the store's."""
_ADDED, _ENDED = FIELDS.index(b"timestamp"), FIELDS.index(b"finishedOn")

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


class JobEntries(msgspec.Struct, gc=False):
    """Entries of a stream about one job."""

    last: bytes
    """Id of the last one."""
    queue: str = ""
    added: Pairs | None = None
    end: Pairs | None = None
    """How it was completed, or has failed."""
    kept: Pairs | None = None
    """What it was when it was removed."""

    @property
    def millis(self) -> int:
        """When the last one was written."""
        return min(int(self.last.partition(b"-")[0]), LAST_MS)


Left: TypeAlias = Callable[[Mapping[bytes, bytes]], Values]
"""What an event says of a job that is gone."""


def left_in_fields(said: Mapping[bytes, bytes]) -> Values:
    """What an event says that has the fields of a hash."""
    return [said.get(name) for name in FIELDS]


class ReadJobs:
    """Jobs of one queue, and what was found of each."""

    def __init__(self, left: Left = left_in_fields) -> None:
        self._left = left
        self.subjects: list[bytes] = []
        self.seen: list[JobEntries] = []
        self.found: list[Values] = []
        """Values of `FIELDS`."""
        self.logs: dict[int, list[bytes]] = {}
        """Log lines of those that have some, by position."""
        self.replaced: set[int] = set()
        """Positions of those whose id another job has by now."""

    def extend(
        self,
        subjects: Sequence[bytes],
        seen: Sequence[JobEntries],
        found: Sequence[Values],
        logs: Mapping[int, list[bytes]] = MappingProxyType({}),
    ) -> None:
        """Add jobs; of one that is gone, what it has left in the stream counts."""
        first = len(self.subjects)
        self.subjects += subjects
        self.seen += seen
        others = {
            index
            for index, (each, values) in enumerate(zip(seen, found, strict=True))
            if _is_of_another_life(each, values)
        }
        if others:
            found = [NOTHING if index in others else each for index, each in enumerate(found)]
            self.replaced |= {first + index for index in others}
        self.found += found
        self.logs |= {first + index: lines for index, lines in logs.items()}
        for index in _gone(found):
            if kept := seen[index].kept:
                left = _said(kept)
                self.found[first + index] = self._left(left)
                self.logs[first + index] = _log_lines(left.get(b"logs"))
            else:
                self.logs.pop(first + index, None)


def _is_of_another_life(seen: JobEntries, values: Values) -> bool:
    """Whether a hash is that of a later job, which was given the same id.

    One that has ended after its event, or has not ended at all, is another one if it was added
    after that end; before an end was seen, only what is much younger than the event is.
    """
    added_ms = _millis(values[_ADDED])
    if added_ms is None:
        return False
    if seen.end is None:
        return added_ms > seen.millis + SKEW_MS
    ended_ms = _millis(values[_ENDED])
    return added_ms > seen.millis and (ended_ms is None or ended_ms > seen.millis + SKEW_MS)


def _millis(raw: bytes | None) -> int | None:
    return int(raw) if raw is not None and len(raw) < 16 and raw.isdigit() else None


class Batches(NamedTuple):
    """Rows of `payloads` and of `field_values`."""

    payloads: Batch
    values: Batch


class PayloadColumns:
    """Turns jobs of one queue into rows, after the rules."""

    def __init__(
        self,
        queue: str,
        settings: PayloadSettings,
        rules: QueueRules,
        product: str = Product.BULLMQ.value,
    ) -> None:
        self._line = product
        self._queue = queue
        self._limit = settings.limit
        self._declared = _declared(tuple(settings.fields.items()))
        self._rules = rules

    def batches(self, jobs: ReadJobs) -> Batches:
        """The rows of some jobs, and those of their declared fields."""
        many = len(jobs.subjects)
        left_out = _LeftOut()
        found = dict(zip(FIELDS, zip(*jobs.found, strict=True), strict=True))
        gone = _gone(jobs.found)
        for index in gone:
            left_out.note(index, REPLACED if index in jobs.replaced else GONE)
        data = self._documents("data", found[b"data"], left_out)
        returned = _either(
            found[b"returnvalue"], lambda index: _said(jobs.seen[index].end).get(b"returnvalue")
        )
        result = self._documents("result", returned, left_out)
        names = _either(found[b"name"], lambda index: _said(jobs.seen[index].added).get(b"name"))
        read_at = _instant(pa.array([each.millis for each in jobs.seen], pa.int64()))
        options = self._options(found[b"opts"], gone, left_out)
        known = options.to_pylist()
        columns: dict[str, Array] = {
            "product": _repeat(self._line, many),
            "queue": _repeat(self._queue, many),
            "job_id": _texts(jobs.subjects),
            "read_at": read_at,
            "added_at": _added_at(found[b"timestamp"]),
            "ended": pa.array([bool(each.end or each.kept) for each in jobs.seen]),
            "name": self._changed("name", names, self._rules.text, left_out),
            "data": data.texts,
            "options": options,
            "priority": _numbers(found[b"priority"], 2**31, pa.int32()),
            "delay_ms": _numbers(found[b"delay"], 2**62, pa.int64()),
            "attempts": _numbers(
                _either(found[b"atm"], found[b"attemptsMade"].__getitem__), 2**31, pa.int32()
            ),
            "parent": self._plain(found[b"parentKey"]),
            "group": _of_options(known, '"group"', _group),
            "deduplication": self._plain(found[b"deid"]),
            "scheduler": self._plain(found[b"rjk"]),
            "trace": _of_options(known, '"tm"', _trace),
            "result": result.texts,
            "progress": self._changed(
                "progress", found[b"progress"], self._rules.document, left_out
            ),
            "reason": self._plain(found[b"failedReason"]),
            "stacktrace": self._changed(
                "stacktrace", found[b"stacktrace"], self._rules.texts, left_out
            ),
            "logs": self._logs(jobs.logs, many),
            "bytes": _sizes(data.sizes, result.sizes, gone),
            "date": read_at.cast(pa.date32()),
        }
        columns["form"] = self._forms(data.texts, left_out)
        whys = {index: "; ".join(each) for index, each in left_out.whys.items()}
        columns["left_out"] = _sparse(whys, many, pa.string())
        columns["fields"], values = self._fields(data.each, columns)
        return Batches(_batch(columns, _SCHEMA), values)

    def _documents(self, name: str, raw: Values, left_out: "_LeftOut") -> "_Documents":
        """Documents after the rules; one that is too large is left out."""
        column = pa.array(raw, pa.binary())
        sizes = pc.binary_length(column).cast(pa.int64())
        if large := _where(pc.greater(sizes, self._limit)):
            raw = list(raw)
            for index in large:
                whole, raw[index] = raw[index] or b"", None
                digest = hashlib.sha256(whole).hexdigest()
                why = f"{name} has {len(whole)} bytes, sha256 {digest}"
                left_out.note(index, why)
            column = pa.array(raw, pa.binary())
        texts = _as_texts(column)
        if self._rules.is_empty:
            return _Documents(texts, sizes, raw)
        changed = [each.text for each in self._after(name, texts, self._rules.document, left_out)]
        return _Documents(pa.array(changed, pa.string()), sizes, changed)

    def _forms(self, texts: Array, left_out: "_LeftOut") -> Array:
        """The form that each job is kept in whose data is."""
        usual = Form.ENCRYPTED if self._rules.encrypts else Form.PLAIN
        forms = pc.if_else(pc.is_valid(texts), usual, None)
        if not left_out.changed:
            return forms
        changed = pa.array([index in left_out.changed for index in range(len(texts))])
        return pc.if_else(pc.and_(changed, pc.is_valid(texts)), Form.CHANGED, forms)

    def _options(self, raw: Values, gone: Sequence[int], left_out: "_LeftOut") -> Array:
        if self._line == Product.BULLMQ.value and raw.count(None) > len(gone):
            missing = set(gone)
            raw = [
                b"{}" if each is None and index not in missing else each
                for index, each in enumerate(raw)
            ]
        return self._changed("options", raw, self._rules.document, left_out)

    def _changed(
        self, name: str, raw: Values, change: Callable[[str], After], left_out: "_LeftOut"
    ) -> Array:
        texts = _texts(raw)
        if self._rules.is_empty or texts.null_count == len(texts):
            return texts
        after = self._after(name, texts, change, left_out)
        return pa.array([each.text for each in after], pa.string())

    def _after(
        self, name: str, texts: Array, change: Callable[[str], After], left_out: "_LeftOut"
    ) -> list[After]:
        """Documents after the rules; one that they cannot be applied to is left out."""
        given = texts.to_pylist()
        after = [After(None) if each is None else change(each) for each in given]
        for index, each in enumerate(after):
            if not each.is_whole and name in _ADDED_AGAIN:
                left_out.changed.add(index)
            if each.text is None and given[index] is not None:
                left_out.note(index, f"{name}: {UNREADABLE}")
            elif not each.is_whole and name in _ADDED_AGAIN:
                left_out.note(index, f"{name}: changed by a rule")
        return after

    def _plain(self, raw: Values) -> Array:
        """Texts after the rules."""
        texts = _texts(raw)
        if self._rules.is_empty or texts.null_count == len(texts):
            return texts
        change = self._rules.text
        changed = [None if each is None else change(each).text for each in texts.to_pylist()]
        return pa.array(changed, pa.string())

    def _logs(self, logs: Mapping[int, Sequence[bytes]], many: int) -> Array:
        lines = {
            index: [self._rules.text(_text(each)).text for each in some]
            for index, some in logs.items()
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
        shared = ("product", "queue", "job_id", "read_at", "date")
        rows = {name: columns[name].take(whose) for name in shared}
        return (
            pa.MapArray.from_arrays(positions, names, values, kind),
            _batch({**rows, "field": names, "value": values}, _VALUES_SCHEMA),
        )


@cache
def _declared(fields: tuple[tuple[str, str], ...]) -> DeclaredFields:
    """Declared fields, made once for all queues: making them compiles a reader."""
    return DeclaredFields(dict(fields))


_ADDED_AGAIN = frozenset({"data", "name", "options"})
"""What a job needs whole to be added again."""


class _LeftOut:
    """What is not kept of jobs as it was, by position."""

    def __init__(self) -> None:
        self.whys: dict[int, list[str]] = {}
        self.changed: set[int] = set()
        """Those of which rules have changed what they would be added again with."""

    def note(self, index: int, why: str) -> None:
        """Note what is missing of a job, and why."""
        self.whys.setdefault(index, []).append(why)


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


def _of_options(
    options: Sequence[str | None], word: str, read: Callable[[_KnownOptions], Any]
) -> Array:
    """What is read from those options that contain a word; mostly many jobs have the same ones."""
    known: dict[str | None, Any] = {
        each: read(_known(each)) for each in set(options) if each and word in each
    }
    if not known:
        return pa.nulls(len(options), pa.string())
    return pa.array(map(known.get, options), pa.string())


def _known(options: str) -> _KnownOptions:
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

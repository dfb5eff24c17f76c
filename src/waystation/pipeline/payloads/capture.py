"""Capture: jobs read from the queue when their events are, and what removed ones have left.

A job is read after it was added and again after its end. One that was removed before it could be
read may have left an event `kept`; otherwise its row says what is missing.
"""

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.events import EventName, Line
from waystation.pipeline.payloads.options import PayloadSettings
from waystation.pipeline.payloads.paths import JsonPath
from waystation.pipeline.payloads.rules import Rules

AT_ONCE = 500
"""Jobs that are read in one round trip."""
MOST_WAITING = 20_000
"""Jobs of which events were seen and that are not read yet."""
MOST_LOGS = 100
"""Log lines that are kept of a job, the last ones."""
LONGEST_VALUE = 200
"""Characters of a declared field's value."""

GONE = "it was removed before it could be read"
_ADDED = EventName.ADDED.value.encode()
_KEPT = EventName.KEPT.value.encode()
_ENDED = (EventName.COMPLETED.value.encode(), EventName.FAILED.value.encode())
_DOCUMENTS = {b"returnvalue", b"data"}
"""Fields of events that hold JSON of a user."""
_TEXTS = {b"failedReason"}
_ENVELOPE = (b"event", b"jobId")

RawEntry: TypeAlias = Sequence[Any]
Row: TypeAlias = dict[str, Any]


class Rows(NamedTuple):
    """Rows of `payloads` and of `field_values`."""

    payloads: list[Row]
    values: list[Row]


class NoCapture:
    """Reads nothing, and leaves out what removed jobs have left in the stream."""

    is_full = False

    def entries(self, page: list[RawEntry]) -> list[RawEntry]:
        """The same page without payloads."""
        return [_bare(entry) if _KEPT in entry[1] else entry for entry in page]

    def take(self) -> Rows:
        """No rows."""
        return Rows([], [])


class _Seen(msgspec.Struct):
    """What the events of a page say about one job."""

    ms: int
    added: bool = False
    ended: bool = False
    kept: Mapping[bytes, bytes] | None = None
    result: bytes | None = None
    name: bytes | None = None


class Capture:
    """Reads the jobs of one BullMQ queue as their events go by."""

    def __init__(
        self, client: Any, queue: str, prefix: str, settings: PayloadSettings, rules: Rules
    ) -> None:
        self._client = client
        self._queue = queue
        self._base = QueueKeys(queue, prefix=prefix).base
        self._settings = settings
        self._rules = rules.of(queue)
        self._fields = {name: JsonPath.parse(path) for name, path in settings.fields.items()}
        self._waiting: dict[bytes, _Seen] = {}
        self._replaced: list[tuple[bytes, _Seen]] = []

    def entries(self, page: list[RawEntry]) -> list[RawEntry]:
        """Note the jobs of a page; the same page with what the rules leave of it."""
        return [self._entry(each) for each in page]

    @property
    def is_full(self) -> bool:
        """Whether the jobs noted should be read now."""
        return len(self._waiting) >= MOST_WAITING

    def take(self) -> Rows:
        """Read the jobs noted so far."""
        waiting, self._waiting = self._waiting, {}
        payloads = [self._row(subject, seen, {}, []) for subject, seen in self._replaced]
        values = [value for row in payloads for value in _values(row)]
        self._replaced = []
        ids = list(waiting)
        for first in range(0, len(ids), AT_ONCE):
            some = ids[first : first + AT_ONCE]
            for row in self._read({each: waiting[each] for each in some}):
                payloads.append(row)
                values += _values(row)
        return Rows(payloads, values)

    def _entry(self, entry: RawEntry) -> RawEntry:
        pairs = entry[1]
        said = dict(zip(pairs[::2], pairs[1::2], strict=True))
        event, subject = said.get(b"event"), said.get(b"jobId")
        if subject:
            self._note(entry[0], event, subject, said)
        if event == _KEPT:
            # What it carries goes to `payloads`, after the rules.
            return _bare(entry)
        if self._rules.is_empty or not (said.keys() & (_DOCUMENTS | _TEXTS)):
            return entry
        changed = [(name, self._after_rules(name, value)) for name, value in said.items()]
        return entry[0], [each for pair in changed for each in pair]

    def _after_rules(self, name: bytes, value: bytes) -> bytes:
        if name in _DOCUMENTS:
            return self._rules.document(_text(value)).encode()
        return self._rules.text(_text(value)).encode() if name in _TEXTS else value

    def _note(
        self, entry_id: bytes, event: bytes | None, subject: bytes, said: Mapping[bytes, bytes]
    ) -> None:
        if event != _ADDED and event != _KEPT and event not in _ENDED:
            return
        ms = int(entry_id.partition(b"-")[0])
        seen = self._waiting.get(subject)
        if seen is not None and event == _ADDED and (seen.ended or seen.kept):
            # The id is used again: of the job before there is what it has left.
            self._replaced.append((subject, seen))
            seen = None
        if seen is None:
            seen = self._waiting[subject] = _Seen(ms)
        seen.ms = ms
        if event == _ADDED:
            seen.added, seen.name = True, said.get(b"name")
        elif event == _KEPT:
            seen.kept = said
        else:
            seen.ended = True
            seen.result = said.get(b"returnvalue")

    def _read(self, seen: Mapping[bytes, _Seen]) -> Iterator[Row]:
        asking = self._client.pipeline(transaction=False)
        base = self._base.encode()
        for subject, each in seen.items():
            asking.hgetall(base + subject)
            if each.ended:
                asking.lrange(base + subject + b":logs", -MOST_LOGS, -1)
        replies: Iterator[Any] = iter(asking.execute(raise_on_error=False))
        for subject, each in seen.items():
            found: Any = next(replies)
            logs: Any = next(replies) if each.ended else None
            # Something that is no job may lie under its key.
            stored = cast("dict[bytes, bytes]", found if isinstance(found, dict) else {})
            lines = cast("list[bytes]", logs if isinstance(logs, list) else [])
            yield self._row(subject, each, stored, lines)

    def _row(
        self, subject: bytes, seen: _Seen, stored: Mapping[bytes, bytes], logs: Sequence[bytes]
    ) -> Row:
        kept = seen.kept
        if kept is not None and not stored:
            stored = {name: value for name, value in kept.items() if name not in _ENVELOPE}
            logs = _log_lines(stored.get(b"logs"))
        at = _instant(seen.ms)
        row: Row = {
            "line": Line.BULLMQ.value,
            "queue": self._queue,
            "subject": _text(subject),
            "read_at": at,
            "ended": seen.ended or kept is not None,
            "date": at.date(),
        }
        if not stored:
            row["name"] = _optional(seen.name)
            row["left_out"] = GONE
            if seen.result is not None:
                row["result"], row["bytes"] = self._document(row, "result", seen.result)
            return row
        return {**row, **self._job(stored, logs, seen)}

    def _job(self, stored: Mapping[bytes, bytes], logs: Sequence[bytes], seen: _Seen) -> Row:
        get = stored.get
        rules, row = self._rules, Row()
        options = _text(get(b"opts", b"{}"))
        result = get(b"returnvalue", seen.result)
        row["data"], data_bytes = self._document(row, "data", get(b"data"))
        row["result"], result_bytes = self._document(row, "result", result)
        row |= {
            "added_at": _instant_of(get(b"timestamp")),
            "name": _optional(get(b"name")),
            "options": rules.document(options),
            "priority": _number(get(b"priority"), 2**31),
            "delay_ms": _number(get(b"delay"), 2**62),
            "attempts": _number(get(b"atm", get(b"attemptsMade")), 2**31),
            "parent": _optional(get(b"parentKey")),
            "group": _group(options),
            "deduplication": _optional(get(b"deid")),
            "scheduler": _optional(get(b"rjk")),
            "trace": _trace(options),
            "progress": _mapped(get(b"progress"), rules.document),
            "reason": _mapped(get(b"failedReason"), rules.text),
            "stacktrace": _mapped(get(b"stacktrace"), rules.text),
            "logs": [rules.text(_text(each)) for each in logs] or None,
            "fields": self._declared(row["data"]),
            "bytes": data_bytes + result_bytes,
        }
        return row

    def _document(self, row: Row, name: str, raw: bytes | None) -> tuple[str | None, int]:
        """A document after the rules, and its size before; one that is too large is left out."""
        if raw is None:
            return None, 0
        if len(raw) > self._settings.limit:
            digest = hashlib.sha256(raw).hexdigest()
            row["left_out"] = f"{name} has {len(raw)} bytes, sha256 {digest}"
            return None, len(raw)
        self._rules.has_lost = False
        document = self._rules.document(_text(raw))
        if name == "data" and self._rules.has_lost:
            row["left_out"] = "data: changed by a rule"
        return document, len(raw)

    def _declared(self, data: str | None) -> list[tuple[str, str]] | None:
        if not self._fields or not data:
            return None
        try:
            document = msgspec.json.decode(data)
        except (msgspec.MsgspecError, RecursionError):
            return None
        found = [
            (name, _shown(value)[:LONGEST_VALUE])
            for name, path in self._fields.items()
            for value in list(path.values(document))[:1]
            if value is not None
        ]
        return found or None


def _bare(entry: RawEntry) -> RawEntry:
    """An entry with its envelope alone, if it is the last of a removed job."""
    said = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
    if said.get(b"event") != _KEPT:
        return entry
    return entry[0], [each for name in _ENVELOPE for each in (name, said.get(name, b""))]


def _values(row: Row) -> Iterator[Row]:
    shared = {name: row[name] for name in ("line", "queue", "subject", "read_at", "date")}
    for field, value in row.get("fields") or ():
        yield {**shared, "field": field, "value": value}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _optional(raw: bytes | None) -> str | None:
    return None if raw is None else _text(raw)


def _mapped(raw: bytes | None, change: Any) -> str | None:
    return None if raw is None else change(_text(raw))


def _number(raw: bytes | None, below: int) -> int | None:
    if raw is None or not raw.removeprefix(b"-").isdigit() or len(raw) > 18:
        return None
    return number if abs(number := int(raw)) < below else None


def _instant(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(min(ms, 253_402_300_799_999) / 1000, dt.UTC)


def _instant_of(raw: bytes | None) -> dt.datetime | None:
    ms = _number(raw, 253_402_300_799_999)
    return None if ms is None or ms < 0 else _instant(ms)


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


def _known(options: str) -> _KnownOptions:
    try:
        return msgspec.json.decode(options, type=_KnownOptions)
    except (msgspec.MsgspecError, RecursionError):
        return _KnownOptions()


def _group(options: str) -> str | None:
    group = _known(options).group if '"group"' in options else None
    return group.id if group else None


def _trace(options: str) -> str | None:
    """The id in a `traceparent`, which is JSON inside the options."""
    carried = _known(options).tm if '"tm"' in options else None
    parts = (carried or "").partition("traceparent")[2].split("-")
    return parts[1] if len(parts) > 2 and len(parts[1]) == 32 else None

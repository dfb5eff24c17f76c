"""A dumped database without what must differ between two runs of the same thing.

Instants become minutes after the start, so that a wrong delay still shows; ids made at random are
numbered in the order in which the events name them; the JSON that Redis' own encoder wrote loses
that encoder's habits.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

MINUTE = 60_000
HOUR = 60 * MINUTE
DELAYED_SLOTS = 4096  # a delayed job's score is its instant times this, plus its place in it
EARLIEST, LATEST = 1_500_000_000_000, 1_999_999_999_999  # what counts as an instant: 2017 to 2033

JSON_FIELDS = {"data", "progress", "returnvalue"}
ENCODED_BY_REDIS = {"opts", "parent"}

_INSTANT = re.compile(r"(?<!\d)1[5-9]\d{11}(?!\d)")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WORKER_NAME = re.compile(r"[\w.-]+-\d+-\w+")
_MINUTES_LIST = re.compile(r":metrics:(completed|failed):data$")


class RawKey(NamedTuple):
    """A key as it was read, bytes as text."""

    kind: str
    value: Any
    pttl: int


Raw: TypeAlias = Mapping[str, RawKey]


class Stored(msgspec.Struct, frozen=True):
    """What a key holds, comparable with another run."""

    kind: str
    value: Any
    minutes: int | None = None
    """How long it will live, rounded; None for a key that stays."""


class Normal:
    """One reading of a database; it remembers which random id got which number."""

    def __init__(self, since: int) -> None:
        self._since = since
        self._numbers: dict[str, int] = {}

    def snapshot(self, raw: Raw) -> dict[str, Stored]:
        """Everything that two runs must have in common."""
        # A list of finished minutes depends on where in its minute the run began.
        kept = {key: one for key, one in raw.items() if not _MINUTES_LIST.search(key)}
        self._number_ids(kept)
        return {self._text(key): self._stored(key, one) for key, one in kept.items()}

    def _number_ids(self, raw: Raw) -> None:
        streams = [raw[key].value for key in sorted(raw) if raw[key].kind == "stream"]
        for entry in (entry for entries in streams for entry in entries):
            for found in _UUID.findall(" ".join(entry.values())):
                self._numbers.setdefault(found, len(self._numbers) + 1)

    def _stored(self, key: str, raw: RawKey) -> Stored:
        minutes = None if raw.pttl < 0 else round(raw.pttl / MINUTE)
        return Stored(raw.kind, self._value(key, raw), minutes)

    def _value(self, key: str, raw: RawKey) -> Any:
        match raw.kind:
            case "hash":
                return {self._text(name): self._field(key, name, raw.value) for name in raw.value}
            case "zset":
                return self._members(key.rpartition(":")[2], raw.value)
            case "set":
                return sorted(self._text(member) for member in raw.value)
            case "list":
                return [self._text(item) for item in raw.value]
            case "stream":
                return [self._entry(entry) for entry in raw.value]
            case _:
                return "<token>" if key.endswith(":lock") else self._text(raw.value)

    def _field(self, key: str, name: str, fields: Mapping[str, str]) -> Any:
        text = fields[name]
        if "rjk" in fields:
            text = self._slot_for_delay(name, fields)
        if name in JSON_FIELDS or key.endswith(":processed"):
            return self._json(text)
        if name in ENCODED_BY_REDIS:
            return _without_habits(self._json(text))
        match name:
            case "stacktrace":
                return ["<stack>"] * len(msgspec.json.decode(text))
            case "pb" if _WORKER_NAME.fullmatch(text):
                return "<worker>"
            case "version":
                return re.sub(r":.*", ":<version>", text)
            case "offset" | "prevCount":
                return f"<{name}>"
            case _:
                return self._text(text)

    def _slot_for_delay(self, name: str, fields: Mapping[str, str]) -> str:
        """A scheduler's job is due at a slot, so how long it waits depends on when it was added."""
        delay, due = fields["delay"], int(fields["timestamp"]) + int(fields["delay"])
        if delay == "0" or name not in ("delay", "opts"):
            return fields[name]
        return re.sub(rf"(?<!\d){delay}(?!\d)", str(due), fields[name])

    def _entry(self, entry: Mapping[str, str]) -> dict[str, Any]:
        return {
            name: self._json(text) if name in JSON_FIELDS else self._text(text)
            for name, text in entry.items()
        }

    def _members(self, suffix: str, members: Iterable[tuple[str, float]]) -> list[list[Any]]:
        """Members with their scores; where scores are instants, ties and near ties are sorted."""
        if suffix == "prioritized":
            return [[self._text(member), int(score)] for member, score in members]
        if suffix == "delayed":
            return sorted([self._text(member), self._due(int(score))] for member, score in members)
        return sorted(
            [self._text(member), self._text(str(int(score)))] for member, score in members
        )

    def _due(self, score: int) -> str:
        instant, place = divmod(score, DELAYED_SLOTS)
        # Two jobs share an instant by chance, unless the test fixed it to a full hour.
        return (
            f"{self._instant(instant)} #{place}" if instant % HOUR == 0 else self._instant(instant)
        )

    def _text(self, text: str) -> str:
        text = _UUID.sub(lambda found: f"<id {self._number(found[0])}>", text)
        return _INSTANT.sub(lambda found: self._instant(int(found[0])), text)

    def _number(self, found: str) -> int:
        return self._numbers.setdefault(found, len(self._numbers) + 1)

    def _instant(self, ms: int) -> str:
        if ms % HOUR == 0:
            return f"<{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M}>"
        minutes = round((ms - self._since) / MINUTE)
        return f"<start{minutes:+} min>" if minutes else "<start>"

    def _json(self, text: str) -> Any:
        try:
            return each(msgspec.json.decode(text), self._leaf)
        except msgspec.DecodeError:
            return f"<not JSON> {self._text(text)}"

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and EARLIEST <= value <= LATEST:
            return self._instant(value)
        return value


def each(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same tree with every name and every scalar put through `leaf`; sets become lists."""
    if isinstance(value, dict):
        fields = cast(dict[Any, Any], value)
        return {leaf(name): each(one, leaf) for name, one in fields.items()}
    if isinstance(value, list | set | tuple):
        return [each(one, leaf) for one in cast(Iterable[Any], value)]
    return leaf(value)


def _without_habits(value: Any) -> Any:
    """JSON as if Redis' encoder had not rounded to 14 digits, dropped nulls and emptied arrays."""
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {name: _without_habits(one) for name, one in fields.items() if one is not None}
    if isinstance(value, list):
        return [_without_habits(one) for one in cast(list[Any], value)] or {}
    if isinstance(value, int | float) and not isinstance(value, bool):
        rounded = float(f"{value:.14g}")
        return int(rounded) if rounded.is_integer() else rounded
    return value

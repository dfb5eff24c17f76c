"""Rules: the requests that a room protects, however their paths are spelled."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, cast
from urllib.parse import unquote

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidInput, InvalidOption, Malformed
from waystation.core.http.endpoints import stated

MOST_READINGS = 128
"""A path that may be read in more ways than this is refused as past reading."""
MOST_READ = 65_536
"""The same for one whose readings have more characters than this together."""
_ANY_CASE = {0x131: "i", 0x17F: "s", 0x307: ""}
"""What routes that ignore case take for i and s: letters without a dot, long, and with a dot."""
_PLAIN = re.compile(r"(?:/(?![/.])[^/%;\\?#\x00-\x1f\x7f\u0131\u017f\u0307]*)+")
WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
"""How the names of methods and headers are written."""
_OVERLONG = re.compile(
    r"(?:%c|%e0%8|%f0%80%8|%f8%80%80%8|%fc%80%80%80%8)([01])%([89ab][0-9a-f])|%u00([0-9a-f]{2})"
)
"""Letters of ASCII that UTF-8 would write with one byte, and those that IIS knows."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One kind of request, and the room it has to wait in."""

    queue: str
    path: str
    """A pattern such as /checkout*; `*` stands for anything, upper and lower case are the same."""
    methods: Sequence[str] = ()
    """Empty for all."""
    headers: Mapping[str, str] = {}
    """Only those with these headers, each holding this text."""
    cookie: str = ""
    """Only those whose cookies hold this text."""
    agent: str = ""
    """Only those whose browser's name holds this text."""
    action: Literal["queue", "bypass", "block"] = "queue"
    """The first rule that fits counts: wait, go by, or be turned away."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or "?" in self.path or "#" in self.path:
            raise InvalidOption(
                f"a rule's path must start with / and have no query, got {self.path!r}"
            )
        if "{" in self.queue:
            raise InvalidOption(f"a rule names its room without braces, got {self.queue!r}")
        if self.action not in ("queue", "bypass", "block"):
            raise InvalidOption(f"a rule must queue, bypass or block, got {self.action!r}")
        for name in (*self.methods, *self.headers):
            if not re.fullmatch(WORD, name):
                raise InvalidOption(f"a rule names methods and headers by a word, got {name!r}")

    @cached_property
    def _texts(self) -> Sequence[Sequence[str]]:
        """The texts between the stars, as they were written and as they are meant."""
        # Split first: %2A is the sign itself.
        parts = self.path.split("*")
        return [each.lower() for each in parts], [unquote(each).lower() for each in parts]

    def is_about(self, method: str, headers: Mapping[str, str]) -> bool:
        """Whether a request is of the kind that the rule is for, whatever its path."""
        if self.methods and method.upper() not in [each.upper() for each in self.methods]:
            return False
        for name, text in self.headers.items():
            # Also one without a text has to be there.
            if name.lower() not in headers or text not in headers[name.lower()]:
                return False
        cookies, agent = headers.get("cookie", ""), headers.get("user-agent", "")
        return self.cookie in cookies and self.agent in agent

    def fits(self, reading: str) -> bool:
        """Whether one reading of a path is meant, with or without a slash at its end."""
        # What opens has to be meant both ways, what closes in one of them.
        enough = all if self.action == "bypass" else any
        forms = (reading, reading.rstrip("/") or "/")
        return enough(any(_holds(each, texts) for texts in self._texts) for each in forms)


def _holds(reading: str, texts: Sequence[str]) -> bool:
    """Whether a reading is these texts in their order, with anything between two of them.

    Each is taken where it comes first, which leaves the most to the others, so nothing is tried
    twice: of a regular expression with several `.*` a stranger's long path makes years.
    """
    first, *others = texts
    if not others:
        return reading == first
    *middle, last = others
    at, end = len(first), len(reading) - len(last)
    if not (reading.startswith(first) and reading.endswith(last)):
        return False
    for each in middle:
        found = reading.find(each, at, end)
        if found < 0:
            return False
        at = found + len(each)
    return at <= end


class WrittenRule(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which requests a room stands in front of."""

    path: Annotated[str, stated(pattern="^/[^?#]*$")]
    """A pattern such as /checkout*."""
    methods: list[Annotated[str, stated(pattern=f"^{WORD}$")]] = []
    """Empty for all."""
    header: Annotated[str, stated(pattern=f"^$|^{WORD}:")] = ""
    """`Name: part of its value`, if only those with it."""
    cookie: str = ""
    agent: str = ""
    action: Annotated[str, stated(enum=["queue", "bypass", "block"])] = "queue"
    """queue, bypass or block; the first rule that fits counts."""


EVERYTHING = WrittenRule(path="/*")


def stored_rules(text: str) -> list[WrittenRule]:
    """The rules that an operator wrote; whatever cannot be read opens nothing."""
    try:
        said = codec.decode(text, list[Any]) if text else []
    except Malformed:
        return [EVERYTHING]
    return understood(said)


def understood(said: Sequence[Any]) -> list[WrittenRule]:
    """Rules as they are meant; one of a later version stops all that it might, and opens nothing.

    Its conditions may be others than those known here, and so may what it does.
    """
    return [rule for each in said if (rule := _understood(each))]


def _understood(said: Any) -> WrittenRule | None:
    try:
        rule = msgspec.convert(said, WrittenRule)
        rule_of("", rule)
        return rule
    except (msgspec.ValidationError, InvalidOption):
        fields = cast(Mapping[str, Any], said if isinstance(said, Mapping) else {})
    if fields.get("action") == "bypass":
        return None
    path = fields.get("path")
    known = isinstance(path, str) and re.fullmatch(r"/[^?#]*", path)
    action = "block" if fields.get("action") == "block" else "queue"
    return WrittenRule(path=path if known else "/*", action=action)  # pyright: ignore


def closing(
    rules: Sequence[Rule], method: str, paths: Sequence[str], headers: Mapping[str, str]
) -> list[Rule]:
    """The rules that some reading of a path comes under, in their order; none where it may pass.

    For each reading the first rule that fits counts; what may pass may do so in all of them.
    """
    near = [each for each in rules if each.is_about(method, headers)]
    if not near:
        return []
    first = [next((rule for rule in near if rule.fits(each)), None) for each in readings(*paths)]
    return [rule for rule in near if rule.action != "bypass" and rule in first]


def rule_of(queue: str, said: WrittenRule) -> Rule:
    """The rule that an operator wrote; InvalidOption when it cannot be meant."""
    name, _, part = said.header.partition(":")
    return Rule(
        queue=queue,
        path=said.path,
        methods=said.methods,
        headers={name: part.strip()} if said.header else {},
        cookie=said.cookie,
        agent=said.agent,
        action=cast(Any, said.action),
    )


def readings(*paths: str) -> set[str]:
    """What a site might take a path for, in lower case; InvalidInput when it is past reading.

    Servers differ in what they decode, and how often, and in what they cut or resolve, so every
    order of these steps counts.
    """
    found = {each.lower() for each in paths}
    fresh = {each for each in found if not _PLAIN.fullmatch(each)}
    while fresh:
        fresh = {step(each) for each in fresh for step in _STEPS} - found
        found |= fresh
        if len(found) > MOST_READINGS or sum(map(len, found)) > MOST_READ:
            raise InvalidInput("a path must be written plainly")
    return found


def _decoded(path: str) -> str:
    return unquote(path).lower()


def _shortened(path: str) -> str:
    return _OVERLONG.sub(_short, path)


def _short(found: re.Match[str]) -> str:
    page, low, plain = found.groups()
    return f"%{plain}" if plain else f"%{int(page) * 64 + (int(low, 16) & 63):02x}"


def _without_dots(path: str) -> str:
    kept = list[str]()
    for part in path.split("/"):
        if part == "..":
            # Never a copy: there may be thousands of them.
            del kept[-1:]
            if not kept:
                kept.append("")
        elif part != ".":
            kept.append(part)
    return "/".join(kept)


def _substituting(pattern: str, by: str) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.DOTALL)
    return lambda path: compiled.sub(by, path)


_STEPS: Sequence[Callable[[str], str]] = (
    _decoded,
    _shortened,
    _without_dots,
    lambda path: path.translate(_ANY_CASE),
    _substituting(r"\\", "/"),
    _substituting(r";[^/]*", ""),
    _substituting(r"[?#].*", ""),
    _substituting(r"[\x00-\x1f\x7f]", ""),
    _substituting(r"//+", "/"),
    # A request may name the whole address, or no slash at all.
    _substituting(r"\A[a-z][a-z0-9+.-]*://[^/]*", ""),
    _substituting(r"\A(?!/)", "/"),
)

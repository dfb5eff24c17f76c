"""Rules: the requests that a room protects, however their paths are spelled."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from functools import cached_property
from typing import Literal
from urllib.parse import unquote

import msgspec

from waystation.core.errors import InvalidOption

_SLASHES = re.compile(r"/+")


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
        if not self.path.startswith("/"):
            raise InvalidOption(f"a rule's path must start with /, got {self.path!r}")
        if "{" in self.queue:
            raise InvalidOption(f"a rule names its room without braces, got {self.queue!r}")
        if self.action not in ("queue", "bypass", "block"):
            raise InvalidOption(f"a rule must queue, bypass or block, got {self.action!r}")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(translate(self.path.lower()))

    def fits(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Whether a request has to wait here."""
        if self.methods and method not in self.methods:
            return False
        if any(text not in headers.get(name.lower(), "") for name, text in self.headers.items()):
            return False
        if self.cookie not in headers.get("cookie", ""):
            return False
        if self.agent not in headers.get("user-agent", ""):
            return False
        return any(self._pattern.fullmatch(each) for each in spellings(path))


def spellings(path: str) -> set[str]:
    """What a site behind might take this path for: decoded, without doubled slashes and dots."""
    found = {path}
    for _ in range(3):
        found |= {unquote(each) for each in found}
    plain = set[str]()
    for each in found:
        text = re.sub(r";[^/]*", "", each.replace("\\", "/"))
        text = _SLASHES.sub("/", text)
        plain |= {each, text, _without_dots(text), _without_dots(text).rstrip("/") or "/"}
    return {each.lower() for each in plain}


def _without_dots(path: str) -> str:
    kept = list[str]()
    for part in path.split("/"):
        if part == "..":
            kept = kept[:-1] or [""]
        elif part != ".":
            kept.append(part)
    return "/".join(kept)

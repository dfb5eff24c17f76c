"""Targets: the workers that a job may run on."""

import json
from typing import Any, Literal, TypeAlias

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.options import check_fields
from waystation.routing.limits import Limit

Mode: TypeAlias = Literal["any", "all"]
Match: TypeAlias = Literal["category-all", "category-any"]

_ANYWHERE = (None, (), (), (), (), "any", "category-all")


class Target(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where a job may run; a category left empty always holds.

    A named server decides alone. Otherwise each category must hold: in the mode `any` when the
    worker has one of its values, in the mode `all` when it has every one. With the match
    `category-any` one of the categories that are given is enough.
    """

    server: str | None = None
    """The one worker that may take it; the rest of the target then counts for nothing."""
    stack: tuple[str, ...] = ()
    """What the worker runs, `python` say."""
    capabilities: tuple[str, ...] = ()
    """What the worker can do, `gpu` say."""
    region: tuple[str, ...] = ()
    """Where the worker is, `eu` say."""
    mode: Mode = "any"
    """Whether the worker needs one value of a category, or all of them."""
    match: Match = "category-all"
    """Whether every category given must hold, or one of them."""
    avoid: tuple[str, ...] = ()
    """Servers that must not take it; filled in when a failure asks for another worker."""

    def __post_init__(self) -> None:
        # A target is read for every job that is claimed, and most ask for nothing.
        given = (self.server, self.stack, self.capabilities, self.region, self.avoid)
        if (*given, self.mode, self.match) == _ANYWHERE:
            return
        check_fields(self)
        if self.server == "":
            raise InvalidOption("a target's server must be a name or left out, got an empty one")
        for category in ("stack", "capabilities", "region", "avoid"):
            for value in getattr(self, category):
                if not isinstance(value, str) or not value:
                    raise InvalidOption(f"a target's {category} must be names, got {value!r}")


ANYWHERE = Target()


def signature(type: str, target: Target, limit: Limit | None = None) -> str:
    """The text that all jobs with the same needs share.

    It is only a label: a client that writes the same needs otherwise makes another label, and
    both are served.
    """
    parts: list[Any] = [
        type,
        target.mode,
        target.server or "",
        sorted(target.stack),
        sorted(target.capabilities),
        sorted(target.region),
        sorted(target.avoid),
    ]
    if more := _what_few_ask_for(target, limit):
        parts.append(more)
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def _what_few_ask_for(target: Target, limit: Limit | None) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if target.match != "category-all":
        more["match"] = target.match
    return more | msgspec.to_builtins(limit or Limit())


def route(type: str, target: Target, priority: int, limit: Limit | None = None) -> str:
    """A job's lane, H for priorities from 7 and N below, and its signature."""
    return ("H" if priority >= HIGH_PRIORITY else "N") + signature(type, target, limit)


HIGH_PRIORITY = 7
"""From here on a job goes before all those below."""

"""The names of scripts, for whoever sees only their digests."""

from collections.abc import Sequence
from functools import cache

from waystation.core.store.script.declaration import LuaScript

_LONGEST = 40


def command(words: Sequence[bytes]) -> str:
    """A command without what it was about, which may be anybody's; a script of ours by its name."""
    if not words:
        return ""
    name = words[0].decode("utf-8", "replace").upper()[:_LONGEST]
    if name not in ("EVALSHA", "EVALSHA_RO") or len(words) < 2:
        return name
    known = _names().get(words[1].decode("ascii", "replace").lower())
    return f"{name} {known}" if known else f"{name} of another library"


@cache
def _names() -> dict[str, str]:
    # A console has loaded every product, and with it all its scripts.
    return {
        each.sha: f"{each.__wrapped__.__module__.split('.')[1]} {each.name}"
        for each in LuaScript.every
    }

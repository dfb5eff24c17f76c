"""Reading of capped streams for webhooks, which tells what was trimmed before it was read."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from waystation.core.webhooks.sending import BATCH

START = "0-0"
"""Where a stream begins."""
GAP = "gap"
"""The event that says: others came before this one, and were trimmed unread."""

Ask: TypeAlias = Callable[..., Awaitable[Any]]
Entry: TypeAlias = tuple[str, list[bytes]]


async def unread(ask: Ask, stream: str, last: str, *, seen: bool) -> tuple[list[Entry], bool]:
    """The next entries after this id, and whether some before them were trimmed.

    `seen` says that an entry of that id was read: when it is gone, others may have gone with it.
    Without it the id is an instant, and an entry of the same millisecond is new, too.
    """
    raw = await ask("XRANGE", stream, last, "+", "COUNT", BATCH + 1)
    entries = [(id.decode(), fields) for id, fields in raw]
    if seen and entries and entries[0][0] == last:
        return entries[1:], False
    if not entries:
        return [], False
    return entries[:BATCH], seen or await _is_trimmed(ask, stream, last)


async def _is_trimmed(ask: Ask, stream: str, since: str) -> bool:
    """Whether entries after this one may be gone: none before it are left, and some are."""
    if since != START and await ask("XREVRANGE", stream, f"({since}", "-", "COUNT", 1):
        return False
    raw = await ask("XINFO", "STREAM", stream)
    if isinstance(raw, list):
        flat = cast("list[Any]", raw)
        raw = dict(zip(flat[::2], flat[1::2], strict=True))
    info = cast("dict[Any, Any]", raw)
    # Servers before Redis 7 do not count.
    return int(info.get(b"entries-added") or 0) > int(info[b"length"])

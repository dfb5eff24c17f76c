"""Reads of Redis streams: offsets ahead, and the entries of a range page by page."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from redis import Redis

from waystation.core.store import faults
from waystation.pipeline.sources.columns import (
    RawEntry,
    batch_of,
    entries_of,
    entry_range_row,
    range_row,
)
from waystation.pipeline.sources.keys import StreamKey
from waystation.pipeline.sources.offsets import BEGINNING, EventStream, Offset, StreamRange
from waystation.pipeline.sources.scripts import reach
from waystation.pipeline.sources.store import own_connection
from waystation.pipeline.storage.arrow import Batch

STEP = 2000
"""Entries that the server counts in one call when a batch is limited."""
FIRST_PAGE = 100
BATCH_ROWS = 8192
PAGE_BYTES = 4 * 2**20
"""Pages shrink so that entries of a megabyte do not come by the thousand."""


class RowForm(NamedTuple):
    """How entries, and the report on a range of them, become rows."""

    batch: Callable[[EventStream, Sequence[RawEntry]], Batch]
    report: Callable[[EventStream, dict[str, Any]], Batch]


EVENT_FORM = RowForm(batch_of, range_row)
ENTRY_FORM = RowForm(entries_of, entry_range_row)


def advance(client: Redis, stream: str, after: Offset, many: int) -> Offset:
    """The offset so many entries further on, or the end if that comes first."""
    here, walked = after, 0
    while walked < many:
        step = reach.call_sync(
            client, StreamKey(stream), after=here.id, count=min(STEP, many - walked)
        )
        if not step.many:
            break
        walked += step.many
        # Entries are lost from the oldest on, so those already gone are behind this offset.
        added = None if here.added is None else max(here.added, step.gone) + step.many
        here = Offset(step.last, added)
    return here


def rows_of(
    client: Redis,
    span: StreamRange,
    *,
    page: int,
    accounts: bool,
    change: Callable[[list[RawEntry]], list[RawEntry]] = lambda entries: entries,
    form: RowForm = EVENT_FORM,
) -> Iterator[Batch]:
    """The entries of a range; then a report on it, with `accounts` or when entries are lost.

    `change` sees the entries before they become rows of a form.
    """
    read, first = 0, None
    for found in _batches(_pages(client, span, page)):
        entries = change(found)
        if not entries:
            continue
        first = first or entries[0][0].decode()
        read += len(entries)
        yield form.batch(span.stream, entries)
    account = account_of(span, read, first)
    if accounts or account["lost"] != 0:
        yield form.report(span.stream, account)


def account_of(span: StreamRange, read: int, first: str | None) -> dict[str, Any]:
    """What a report says about a range of which so many entries were read."""
    after, until = span.after, span.until
    counted = after.added is not None and until.added is not None
    expected = (until.added or 0) - (after.added or 0) if counted else None
    # More than were added, or an offset that went back: another stream of the same name.
    recreated = until.order < after.order or (expected is not None and read > expected)
    return {
        "after": after.id,
        "until": until.id,
        "first": first,
        "added": until.added,
        "read": read,
        "lost": None if recreated or expected is None else expected - read,
        "recreated": recreated,
    }


def _batches(pages: Iterator[list[RawEntry]]) -> Iterator[list[RawEntry]]:
    """Pages joined until they are worth turning into columns."""
    held: list[RawEntry] = []
    for page in pages:
        held += page
        if len(held) >= BATCH_ROWS or _weight(page) >= PAGE_BYTES:
            yield held
            held = []
    if held:
        yield held


def _pages(client: Redis, span: StreamRange, most: int) -> Iterator[list[RawEntry]]:
    if span.until.order == span.after.order:
        return
    stream, until = span.stream.key, span.until.id
    # A stream that went back is another one, or has lost its end: whatever it holds is looked at.
    first = BEGINNING if span.went_back else span.after.id
    after, count = first.encode(), min(FIRST_PAGE, most)
    with own_connection(client) as connection, faults.translated():
        connection.send_command("XRANGE", stream, b"(" + after, until, "COUNT", count)
        while page := cast(list[RawEntry], connection.read_response()):
            asked, count = count, _next_count(page, count, most)
            last = len(page) < asked
            # The server looks up the next page while this one is turned into columns.
            if not last:
                after = page[-1][0]
                connection.send_command("XRANGE", stream, b"(" + after, until, "COUNT", count)
            yield page
            if last:
                break


def _next_count(page: list[RawEntry], asked: int, most: int) -> int:
    weight = max(1, _weight(page))
    fits = max(1, asked * PAGE_BYTES // weight)
    return min(most, fits, asked * 4)


def _weight(page: list[RawEntry]) -> int:
    """Approximate bytes of a page, estimated from a few of its entries."""
    some = page[:: max(1, len(page) // 8)]
    return sum(len(value) for entry in some for value in entry[1]) * len(page) // len(some)

"""Reading a stretch of a stream, page by page, and accounting for it."""

from collections.abc import Iterator
from typing import Any, cast

from redis import Redis
from redis.connection import AbstractConnection

from waystation.core.store import faults
from waystation.pipeline.sources.columns import RawEntry, batch_of, range_row
from waystation.pipeline.sources.offsets import Stretch, id_order
from waystation.pipeline.storage.arrow import Batch

FIRST_PAGE = 100
BATCH_ROWS = 8192
PAGE_BYTES = 4 * 2**20
"""Pages shrink so that entries of a megabyte do not come by the thousand."""


def rows_of(client: Redis, stretch: Stretch, *, page: int, accounts: bool) -> Iterator[Batch]:
    """The entries of a stretch, and a row that accounts for it when asked or when some are lost."""
    read, first = 0, None
    for entries in _batches(_pages(client, stretch, page)):
        first = first or entries[0][0].decode()
        read += len(entries)
        yield batch_of(stretch.told, entries)
    account = _account(stretch, read, first)
    if accounts or account["lost"] != 0:
        yield range_row(stretch.told, account)


def _account(stretch: Stretch, read: int, first: str | None) -> dict[str, Any]:
    after, until = stretch.after, stretch.until
    counted = after.added is not None and until.added is not None
    expected = (until.added or 0) - (after.added or 0) if counted else None
    # More than were added, or a place that lies behind: this is another stream of the same name.
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
    """Pages put together until they are worth turning into columns."""
    held: list[RawEntry] = []
    for page in pages:
        held += page
        if len(held) >= BATCH_ROWS or _weight(page) >= PAGE_BYTES:
            yield held
            held = []
    if held:
        yield held


def _pages(client: Redis, stretch: Stretch, most: int) -> Iterator[list[RawEntry]]:
    if id_order(stretch.until.id) <= id_order(stretch.after.id):
        return
    connection: AbstractConnection = client.connection_pool.get_connection()
    stream, until = stretch.told.stream, stretch.until.id
    after, count = stretch.after.id.encode(), min(FIRST_PAGE, most)
    try:
        with faults.translated():
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
    finally:
        # Whoever reads on may stop early, with an answer still under way.
        connection.disconnect()


def _next_count(page: list[RawEntry], asked: int, most: int) -> int:
    weight = max(1, _weight(page))
    fits = max(1, asked * PAGE_BYTES // weight)
    return min(most, fits, asked * 4)


def _weight(page: list[RawEntry]) -> int:
    """About how many bytes a page has, judged by a few of its entries."""
    some = page[:: max(1, len(page) // 8)]
    return sum(len(value) for entry in some for value in entry[1]) * len(page) // len(some)

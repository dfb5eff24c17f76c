"""Looking after a history: made anew, made smaller, and made to forget."""

import datetime as dt
import shutil

from waystation.core.errors import InvalidInput
from waystation.pipeline.history import History, Hours
from waystation.pipeline.maintenance import erasure
from waystation.pipeline.maintenance.compaction import Freed, compacted, tables_of
from waystation.pipeline.refresh import gold_tables, stale_hours
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.run import Silence, Watch
from waystation.pipeline.silver.steps import STEPS
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import fs
from waystation.pipeline.tables import GAPS, Layer, Table


def rebuild(history: History, watch: Watch | None = None) -> None:
    """Make silver and gold anew from bronze."""
    watch = watch or Silence()
    for layer in (Layer.SILVER, Layer.GOLD):
        files, folder = delta.filesystem(f"{history.root}/{layer}")
        if isinstance(files, fs.LocalFileSystem):
            shutil.rmtree(folder, ignore_errors=True)
        elif files.get_file_info(folder).type != fs.FileType.NotFound:
            files.delete_dir(folder)
    watch.begin("folding events into attempts and items")
    fold(history)
    answer(history, watch)


def backfill(history: History, first: dt.date, last: dt.date, watch: Watch | None = None) -> None:
    """Make the answers of some days anew from what silver and bronze hold."""
    if first > last:
        raise InvalidInput(f"the first day must not come after the last, got {first} and {last}")
    fold(history)
    start = dt.datetime.combine(first, dt.time(), dt.UTC)
    hours = ((last - first).days + 1) * 24
    starts = tuple(start + dt.timedelta(hours=n) for n in range(hours))
    stale_hours.note(history.root, 10**19 - 1, Hours(starts))
    answer(history, watch or Silence())


def answer(history: History, watch: Watch) -> None:
    """Make the answers anew without a look at the queues."""
    names = [each.table.name for each in gold_tables.every()]
    watch.begin("answering", len(names))
    fresh = History(history.spark, history.root)
    gold_tables.refresh(fresh, everything=True, told=lambda name: watch.reach(names.index(name)))
    watch.reach(len(names))


def compact(history: History, watch: Watch | None = None) -> list[Freed]:
    """Make few large files of many small ones, and delete what nobody needs any more."""
    watch = watch or Silence()
    # What silver has not read yet must be in the files it will look for.
    fold(history)
    tables = tables_of(history.root)
    watch.begin("compacting", len(tables))
    freed: list[Freed] = []
    for number, table in enumerate(tables, 1):
        freed.append(compacted(history.root, table))
        watch.reach(number)
    return freed


def first_day_kept(days: int, today: dt.date) -> dt.date:
    """The first of the days that are kept when so many are."""
    if days < 1:
        raise InvalidInput(f"at least one day must be retained, got {days}")
    return today - dt.timedelta(days=days)


def retain(history: History, since: dt.date) -> dict[str, int]:
    """Delete what is older than a day; the rows gone from each table."""
    fold(history)
    return {
        table.name: erasure.deleted(history.root, table, predicate)
        for table in tables_of(history.root)
        if (predicate := _older(table, since)) is not None
    }


def forget(history: History, key: str, *, mentioned: bool = False) -> dict[str, int]:
    """Delete every row about one subject, or about all that mention a key, and every trace."""
    gone = (erasure.of_mentions if mentioned else erasure.of_subject)(history, key)
    answer(history, Silence())
    erasure.purge(history, tables_of(history.root))
    return gone


def _older(table: Table, first: dt.date) -> str | None:
    if "date" in table.partitions:
        return f"date < '{first.isoformat()}'"
    instant = {"hour": "hour", GAPS.name: "before_at", STEPS.name: "told_at"}
    column = instant.get("hour" if "hour" in table.key else table.name)
    return None if column is None else f"{column} < '{first.isoformat()}T00:00:00+00:00'"

"""Files by the day on which they were added, from which `files` is added up."""

from waystation.core.events import EventName, Line
from waystation.pipeline.storage.sql import Frame, grouped, select
from waystation.pipeline.tables import DAY, INSTANT, LONG, TEXT, Column, Layer, Table

SIZE_CLASSES = ((0, "empty"), (2**10, "up to 1 KB"), (2**20, "up to 1 MB"), (2**30, "up to 1 GB"))
LARGEST = "over 1 GB"
LONGEST_TYPE = 16
"""Characters of a file extension; what is longer is none."""

_QUEUE = Column("queue", TEXT, "queue of the product")
_DATE = Column("date", DAY, "day on which they were added, in UTC")

KIND = (
    Column("directory", TEXT, "directory of the files"),
    Column("type", TEXT, "file extension in lower case; '' where there is none"),
    Column("size_class", TEXT, "range of their size"),
)
"""Columns by which files are grouped."""

# The key has the day, so that new rows are merged with those of their own days only.
ADDED_FILES = Table(
    name="added_files",
    layer=Layer.SILVER,
    meaning="one row for each file and day on which it was added: what only the event says that "
    "added it",
    key=("line", "queue", "subject", "date"),
    partitions=("date",),
    columns=(
        Column("line", TEXT, "product: files"),
        _QUEUE,
        Column("subject", TEXT, "id of the file"),
        Column("directory", TEXT, "its directory"),
        Column("type", TEXT, "file extension in lower case; '' where there is none"),
        Column("size", LONG, "bytes"),
        Column("date", DAY, "day on which it was added, in UTC"),
    ),
)

FILE_DAYS = Table(
    name="file_days",
    layer=Layer.SILVER,
    meaning="one row for each day, directory, file type, size class and run time of files that "
    "have ended, which `files` is added up from",
    key=("queue", "directory", "type", "size_class", "run_from_ms", "date"),
    partitions=("date",),
    columns=(
        _QUEUE,
        *KIND,
        Column(
            "run_from_ms",
            LONG,
            "least milliseconds of a range of run times, as in the histograms of `hourly`; null "
            "for files that did not run",
        ),
        Column("files", LONG, "files added"),
        Column("completed", LONG, "of them, completed"),
        Column("dead", LONG, "of them, dead letters"),
        Column("endless", LONG, "of them, without an instant at which they ended"),
        Column("bytes", LONG, "size of all of them"),
        Column("first_at", INSTANT, "when the first was added"),
        Column("last_at", INSTANT, "when the last one ended"),
        _DATE,
    ),
)

_SPACES = " \t\n\r\f\v"

_IS_ADDED = (
    f"line = '{Line.FILES.value}' and event = '{EventName.WAITING.value}' "
    "and fields['path'] is not null and subject <> ''"
)
# The folder is all before the last slash; the type is what follows the last dot of the name.
_SUFFIX = f"lower(regexp_extract(fields['path'], '(?s)[^/]([.][^./{_SPACES}]+)$', 1)) as suffix"
_TOLD = (
    *("line", "queue", "subject"),
    "regexp_replace(fields['path'], '(?s)/[^/]*$', '') as directory",
    f"case when length(suffix) <= {LONGEST_TYPE + 1} then suffix else '' end as type",
    "coalesce(try_cast(fields['size'] as bigint), 0) as size",
    "to_date(`at`) as `date`",
)
_ADDED_UP = ("min(directory) as directory", "min(type) as type", "min(size) as size")


def size_class(size: str) -> str:
    """SQL: the class of a size."""
    cases = " ".join(f"when {size} <= {most} then '{name}'" for most, name in SIZE_CLASSES)
    return f"case {cases} else '{LARGEST}' end"


def told(events: Frame) -> Frame:
    """Events that added a file as rows of `added_files`, one for each event."""
    return select(select(events, "*", _SUFFIX, where=_IS_ADDED), *_TOLD)


def merged(rows: Frame) -> Frame:
    """Rows of `added_files` as one for each file and day."""
    return grouped(rows, ADDED_FILES.key, *_ADDED_UP)

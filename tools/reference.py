"""Reference pages, each a table read off the declarations."""

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

import msgspec

import waystation
from tools import commands, python, routing_scripts, settings_page
from waystation.cli import exporter
from waystation.console import app as console
from waystation.core.errors import WaystationError
from waystation.core.store.keyspace import Keyspace
from waystation.core.telemetry import metrics
from waystation.pipeline import tables
from waystation.pipeline.products import PRODUCTS, product_tables
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.sources.columns import ENTRY_ROWS
from waystation.pipeline.sources.columns import ROWS as EVENT_ROWS
from waystation.pipeline.sources.jobs import SCHEMA as JOB_ROWS
from waystation.pipeline.sources.jobs import ReadOptions, WriteOptions
from waystation.pipeline.sources.streams import AnyStreamOptions, EventOptions
from waystation.waitingroom.http import app as http
from waystation.waitingroom.metrics import RoomMetrics


class Printed:
    """What is on a page already, so that what others share with it is not printed again."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, str]]] = {}
        self._homes: dict[int, str] = {}

    def home(self, thing: Any) -> str:
        """Where this very thing was described; empty when it was not."""
        return self._homes.get(id(thing), "")

    def less(
        self, place: str, thing: Any, headings: Sequence[str], rows: list[tuple[str, str]]
    ) -> str:
        """The rows that are new, and the names of those that one thing further up has, too."""
        self._homes[id(thing)] = place
        like = max(self._rows, key=lambda each: len(self._shared(each, rows)), default="")
        shared = self._shared(like, rows)
        if len(shared) < LEAST_SHARED:
            shared = []
        self._rows[place] = rows
        new = [row for row in rows if row not in shared]
        names = ", ".join(f"`{re.split(r'[(:`]', call.strip('`'))[0]}`" for call, _ in shared)
        if shared and len(shared) == len(self._rows[like]):
            names = "everything"
        said = f"As `{like}`: {names}." if shared else ""
        return "\n\n".join(part for part in (said, _table(headings, new) if new else "") if part)

    def _shared(self, place: str, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
        before = self._rows.get(place, [])
        return [row for row in rows if row in before]


LEAST_SHARED = 3
"""Rows that two things must share for the second to refer to the first."""


def pages() -> dict[str, str]:
    """The text of every reference page by its place under `docs`."""
    import_everything()
    writers: dict[str, Callable[[], str]] = {
        "commands": command_line,
        "data-sources": data_sources,
        "errors": errors,
        "http": http.page,
        "console-http": console.page,
        "keys": keys,
        "metrics": instruments,
        "python": python_interface,
        "settings": settings_page.page,
        "tables": history_tables,
        "routing-scripts": routing_scripts.page,
    }
    return {f"reference/{name}.md": write() for name, write in writers.items()}


def command_line() -> str:
    """Every command with what it takes."""
    intro = (
        "What `waystation` can be asked to do. `--help` after any of them prints the same; "
        "`--config`, `--debug` and `--version` come before the command."
    )
    return _page("Commands", intro, *commands.parts())


def errors() -> str:
    """Every error with its one name."""
    rows = [
        (f"`{kind.code}`", kind.__name__, kind.__bases__[0].__name__, _sentence(kind.__doc__))
        for kind in _tree(WaystationError)
    ]
    return _page(
        "Errors",
        "An error has one name everywhere: a script replies with it, a metric is labelled with it, "
        "the command line prints it. Whoever catches a class catches everything that is one.",
        _table(("name", "class", "is a", "what happened"), rows),
    )


def keys() -> str:
    """Every key that is kept in the store, by keyspace."""
    intro = (
        "Where everything is in Redis. `<part>` stands for what the program fills in; "
        "a key with a lifetime is never without one."
    )
    spaces = sorted(_declared_keyspaces(), key=lambda kind: (kind.__module__, kind.__name__))
    parts = [
        f"## {kind.__name__}\n\n{_sentence(kind.__doc__)} Declared in `{kind.__module__}`.\n\n"
        + _table(
            ("key", "type", "lives", "holds"),
            [
                (f"`{row.pattern}`", row.type, row.ttl or "until removed", row.meaning)
                for row in kind.table()
            ],
        )
        for kind in spaces
    ]
    return _page("Keys", intro, *parts)


def history_tables() -> str:
    """Every table of the history, by layer."""
    order = list(tables.Layer)
    known = sorted(
        (*tables.every(), *OPEN, *product_tables()), key=lambda table: order.index(table.layer)
    )
    counted = Counter(column for table in known for column in table.columns)
    # A name stands for one column alone: the one that most tables have.
    best = {column.name: column for column, _ in reversed(counted.most_common())}
    shared = [column for column in counted if column in best.values() and counted[column] >= MANY]
    return _page(
        "Tables",
        "The Delta tables of the history, in the directory `pipeline.history`. Bronze holds the "
        "events and never changes; silver and gold can always be rebuilt from it. Many tables have "
        "some of these columns, and then name them:",
        _columns(shared),
        *(_described(table, shared) for table in known),
    )


MANY = 4
"""Tables that have the same column for it to be described once."""


def _described(table: tables.Table, shared: Sequence[tables.Column]) -> str:
    common = [f"`{column.name}`" for column in table.columns if column in shared]
    own = [column for column in table.columns if column not in shared]
    said = f"{table.meaning[0].upper()}{table.meaning[1:]}. Key: " + ", ".join(
        f"`{name}`" for name in table.key
    )
    said += f"; partitions: `{', '.join(table.partitions)}`." if table.partitions else "."
    said += f" Besides {', '.join(common)}:" if common and own else ""
    said += f" Columns: {', '.join(common)}." if not own else ""
    return "\n\n".join(
        part
        for part in (f"## {table.layer} {table.name}", said, _columns(own) if own else "")
        if part
    )


def _columns(columns: Iterable[tables.Column]) -> str:
    return _table(
        ("column", "type", "description"), [(f"`{c.name}`", c.type, c.meaning) for c in columns]
    )


def data_sources() -> str:
    """Every option of the data sources that Spark programs can use."""
    columns = [
        (f"`{name}`", ", ".join(f"`{each}`" for each in facts.encoder.columns))
        for name, facts in PRODUCTS.items()
        if facts.encoder is not None
    ]
    return _page(
        "Data sources",
        "What `waystation.pipeline.register(spark)` registers with a Spark session. Names of "
        "options are not case-sensitive. [How to use them](../how-to/spark-data-sources.md).",
        "## waystation.events",
        "Reads the event streams, once (`spark.read`) or as a stream (`spark.readStream`).",
        _options(EventOptions),
        _table(
            ("column", "type"), [(f"`{f.name}`", f.dataType.simpleString()) for f in EVENT_ROWS]
        ),
        "## waystation.jobs, read",
        "Reads the jobs that are in queues now, in any state.",
        _options(ReadOptions),
        _table(("column", "type"), [(f"`{f.name}`", f.dataType.simpleString()) for f in JOB_ROWS]),
        "## waystation.jobs, write",
        "Adds rows as jobs, each `key` of a batch once; with `mode('append')` or `writeStream`.",
        _options(WriteOptions),
        "Every row needs the column `key`, which is text. Other columns:",
        _table(("product", "columns"), columns),
        "## waystation.streams",
        "Reads the entries of any Redis streams, once (`spark.read`) or as a stream "
        "(`spark.readStream`).",
        _options(AnyStreamOptions),
        _table(
            ("column", "type"), [(f"`{f.name}`", f.dataType.simpleString()) for f in ENTRY_ROWS]
        ),
    )


def _options(kind: type[msgspec.Struct]) -> str:
    meanings = {field.name: field.meaning for field in python.fields(kind)}
    rows = [
        (
            f"`{field.encode_name}`",
            getattr(field.type, "__name__", str(field.type)),
            "required" if field.required else f"`{field.default}`" if field.default != "" else "",
            meanings[field.name],
        )
        for field in msgspec.structs.fields(kind)
    ]
    return _table(("option", "type", "default", "meaning"), rows)


def python_interface() -> str:
    """What each package offers to programs."""
    printed = Printed()
    parts = [
        part
        for package, words in python.PACKAGES.items()
        for part in (f"## waystation.{package}", words, *_of_package(package, printed))
    ]
    return _page(
        "Python",
        "What programs import, product by product. A field without a default is required. What a "
        "class shares with one further up is named there and described once. The [tours](../tour) "
        "show it at work; [errors](errors.md) have a page of their own.",
        *parts,
    )


def _of_package(package: str, printed: Printed) -> Iterator[str]:
    offered = python.offered(package)
    known = {name: printed.home(thing) for name, thing in offered}
    if again := [f"`{name}` is `{home}`" for name, home in known.items() if home]:
        yield f"Described further up: {', '.join(again)}."
    for name, thing in offered:
        if not known[name]:
            yield _offered(f"{package}.{name}", thing, printed)


def _offered(place: str, thing: Any, printed: Printed) -> str:
    name, words = place.rpartition(".")[2], _sentence(thing.__doc__)
    if python.is_option(thing):
        rows = [(_field(each), each.meaning) for each in python.fields(thing)]
        shown = printed.less(place, thing, ("field", "meaning"), rows)
    elif inspect.isclass(thing) and issubclass(thing, Enum):
        shown = _table(("one of", "value"), [(f"`{e.name}`", f"`{e.value!r}`") for e in thing])
    elif inspect.isclass(thing):
        rows = [(f"`{call}`", _sentence(says)) for call, says in python.methods(thing)]
        made = "" if python.is_internal(thing.__init__) else f"`{python.called(name, thing)}`"
        table = printed.less(place, thing, ("method", "what it does"), rows)
        shown = "\n\n".join(part for part in (made, table) if part)
    else:
        shown = f"`{python.called(name, thing)}`"
    return "\n\n".join(part for part in (f"### {name}", words, shown) if part)


def _field(each: python.Field) -> str:
    default = each.default.strip("`")
    return f"`{each.name}: {each.kind}{'' if default == 'required' else f' = {default}'}`"


def instruments() -> str:
    """Every number for Prometheus."""
    return _page(
        "Metrics",
        "What a process exposes to Prometheus. A label takes at most fifty values, then `other`.",
        _instruments(metrics.Metrics),
        "## The waiting room",
        "What `waystation room serve` exposes as well.",
        _instruments(RoomMetrics),
        "## The exporter",
        "What `waystation exporter` exposes of all queues. BullMQ's names are BullMQ's own.",
        _table(
            ("name", "kind", "labels", "meaning"),
            [
                (f"`{each.name}`", each.kind, _names(each.labels), each.meaning)
                for each in exporter.FAMILIES
            ],
        ),
    )


def _names(labels: Sequence[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels) or "none"


def _instruments(table: type) -> str:
    rows = [
        (
            f"`{each.name}`",
            each.kind.__name__.lower(),
            _names(each.labels),
            each.meaning,
        )
        for each in metrics.declared(table)
    ]
    return _table(("name", "kind", "labels", "meaning"), rows)


def import_everything() -> None:
    """Declarations register themselves when their module is imported."""
    for module in pkgutil.walk_packages(waystation.__path__, "waystation."):
        # Django's modules can only be imported by a site, with its settings.
        if not module.name.endswith("__main__") and ".django." not in module.name:
            importlib.import_module(module.name)


def _tree(kind: type[WaystationError]) -> Iterator[type[WaystationError]]:
    yield kind
    # As declared, each at its first parent. Tests make some of their own.
    for each in kind.__subclasses__():
        if each.__module__ == kind.__module__ and each.__bases__[0] is kind:
            yield from _tree(each)


def _declared_keyspaces() -> set[type[Keyspace]]:
    return {kind for kind in Keyspace.declared() if kind.__module__.startswith("waystation.")}


def _page(title: str, intro: str, *parts: str) -> str:
    made = "<!-- Written by `make docs` from the declarations in src; change those. -->"
    return "\n\n".join((f"# {title}", made, intro, *parts)) + "\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (headings, ["---"] * len(headings), *rows)
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _sentence(text: str | None) -> str:
    """The first paragraph of a docstring."""
    return " ".join((text or "").strip().split("\n\n")[0].split())

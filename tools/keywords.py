"""Keywords of functions that take the fields of an options struct one by one.

Type checkers and editors know keywords from a `TypedDict` alone, which would repeat every field.
The fields are read from the text of the struct and of those that it extends, not by importing
them: the modules of the structs import what is written here.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tools.generated import SOURCE, module


class Keywords(NamedTuple):
    """One `TypedDict`: its name, the struct, what takes it, and the only fields, if not all.

    What else than in the struct a field may be is in `wider`: where it is defined, by the field.
    """

    name: str
    struct: str
    taker: str
    fields: str = ""
    wider: Mapping[str, str] = MappingProxyType({})


WRITTEN = {
    "waystation.bullmq.keywords": (
        Keywords("JobKeywords", "waystation.bullmq.options.JobOptions", "`add`"),
    ),
    # Apart, because a worker's options name jobs, whose methods take the keywords of others.
    "waystation.bullmq.worker_keywords": (
        Keywords("WorkerKeywords", "waystation.bullmq.worker.WorkerOptions", "`Worker`"),
        Keywords(
            "ManualKeywords",
            "waystation.bullmq.worker.WorkerOptions",
            "`ManualWorker`",
            "name lease stalled_interval max_stalled limiter backoff_strategy repeat_strategy "
            "remove_on_complete remove_on_fail",
        ),
    ),
    "waystation.files.keywords": (
        Keywords("WorkerKeywords", "waystation.files.options.WorkerOptions", "`Worker`"),
    ),
    "waystation.tasks.keywords": (
        Keywords(
            "TaskKeywords",
            "waystation.bullmq.options.JobOptions",
            "`Tasks.task`",
            wider={"group": "waystation.tasks.groups.GroupOf"},
        ),
    ),
    "waystation.routing.keywords": (
        Keywords("JobKeywords", "waystation.routing.options.JobOptions", "`Queue.add`"),
        Keywords("WorkerKeywords", "waystation.routing.worker.WorkerOptions", "`Worker`"),
    ),
}


def modules() -> dict[Path, str]:
    """The text of every module of keywords by its file."""
    return {_file(home): _module(home) for home in WRITTEN}


def _module(home: str) -> str:
    imports: dict[str, str] = {"TypedDict": "from typing import TypedDict"}
    classes = [written(each, imports) for each in WRITTEN[home]]
    package = home.split(".")[1]
    title = f"Options of {package} as keywords."
    return module(_file(home), title, "the structs of options", *imports.values(), *classes)


def written(keywords: Keywords, imports: dict[str, str]) -> str:
    """The class, and into `imports` where the names in its types come from."""
    found = dict(_fields(keywords.struct, imports))
    for field, place in keywords.wider.items():
        home, _, name = place.rpartition(".")
        imports[name] = f"from {home} import {name}"
        found[field] = f"{name} | {found[field]}"
    wanted = keywords.fields.split() or [*found]
    which = "that {} takes as keywords" if keywords.fields else "as keywords of {}"
    about = f"The fields of `{keywords.struct.rpartition('.')[2]}` {which.format(keywords.taker)}."
    lines = [f"    {name}: {found[name]}" for name in wanted]
    return "\n".join(
        [f"class {keywords.name}(TypedDict, total=False):", f'    """{about}"""', *lines]
    )


def _fields(struct: str, imports: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The name and the type of each field, those of the struct's base first."""
    home, _, name = struct.rpartition(".")
    tree = ast.parse(_file(home).read_text())
    known = dict(_names(tree, home))
    [defined] = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    for base in defined.bases:
        if isinstance(base, ast.Name):
            yield from _fields(".".join(known[base.id]), imports)
    for each in defined.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            for part in ast.walk(each.annotation):
                if isinstance(part, ast.Name) and part.id in known:
                    place, original = known[part.id]
                    shown = original if original == part.id else f"{original} as {part.id}"
                    imports[part.id] = f"from {place} import {shown}"
            yield each.target.id, ast.unparse(each.annotation)


def _names(tree: ast.Module, home: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Where each name of a module comes from: its module, and what it is called there."""
    for each in tree.body:
        match each:
            case ast.ImportFrom(module=str(place), names=names):
                yield from ((one.asname or one.name, (place, one.name)) for one in names)
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, (home, name)
            case _:
                pass


def _file(home: str) -> Path:
    return SOURCE / f"{home.replace('.', '/')}.py"

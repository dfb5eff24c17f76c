"""Python functions of Lua scripts, written from the scripts' headers.

    --- Take a job off the line.
    --- keys  wait
    --- args  id most:int=1 -> taken

becomes `async def take(redis, keys: QueueKeys, *, id: str, most: int = 1) -> replies.Taken` in
`scripts.py` of the script's package. Two modules beside it are written by hand: `keys.py`, of whose
classes the first that has all keys of a script is taken, with the first arguments that it gives
itself (`script_args`), and `replies.py`, whose functions read replies. Behind the arrow stands one
of these, `bool`, `int` or `texts`; anything else is the type of a reply that comes as it is.
"""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from tools.generated import SOURCE, module
from waystation.core.store.keyspace import Keyspace
from waystation.core.store.script import texts
from waystation.core.store.script.text import Header, parse_header

PACKAGES = {
    "waystation.bullmq.redis": "bullmq",
    "waystation.files.redis": "files",
    "waystation.pipeline.sources": "the data sources",
    "waystation.routing.redis": "routing",
    "waystation.waitingroom.redis": "a waiting room",
}
WIDTH = 93
_READERS = {"bool": bool, "int": int, "texts": texts}


def modules() -> dict[Path, str]:
    """The text of every `scripts.py` by its file."""
    return {_folder(package) / "scripts.py": _module(package) for package in PACKAGES}


def _folder(package: str) -> Path:
    return SOURCE / package.replace(".", "/")


def _module(package: str) -> str:
    title = f"The scripts of {PACKAGES[package]}, one function each: one atomic step each."
    keys, replies = (importlib.import_module(f"{package}.{name}") for name in ("keys", "replies"))
    spaces = [each for each in vars(keys).values() if _is_own(each, keys)]
    heads = [
        "from collections.abc import Sequence",
        "from typing import Any",
        f"from {package} import replies",
        f"from {package}.keys import {', '.join(each.__name__ for each in spaces)}",
        "from waystation.core.store.script import Client, raw, script, texts",
    ]
    functions = [function(file, spaces, replies) for file in _scripts(_folder(package) / "lua")]
    return module(
        _folder(package) / "scripts.py", title, "the headers of the scripts", *heads, *functions
    )


def _is_own(thing: Any, home: ModuleType) -> bool:
    return inspect.isclass(thing) and thing.__module__ == home.__name__


def _scripts(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*.lua")) if file.parent.name != "shared")


def function(file: Path, spaces: list[type], replies: ModuleType) -> str:
    """The function of one script."""
    where = file.as_posix()
    header = parse_header(file.read_text(), where=where)
    reader, kind = _reply(header.reply, replies, where)
    space = _space(header, spaces, where)
    own = space.first_args(header.args) if space and issubclass(space, Keyspace) else ()
    named = [_argument(header, name) for name in (*header.args[len(own) :], header.rest) if name]
    keys = [f"keys: {space.__name__}"] if space else []
    taken = ["redis: Client", *keys, *(["*", *named] if named else ())]
    words = textwrap.wrap(f'"""{header.summary}', WIDTH)
    words = [*words, '"""'] if len(words) > 1 else [f'{words[0]}"""']
    return (
        f"\n\n@script(reply={reader})\n"
        f"async def {file.stem}({', '.join(taken)}) -> {kind}:\n"
        + textwrap.indent("\n".join([*words, "..."]), "    ")
    )


def _space(header: Header, spaces: list[type], where: str) -> type | None:
    wanted = {*header.keys, header.rest_keys} - {None}
    if not wanted:
        return None
    for space in spaces:
        if wanted <= {*dir(space), *inspect.get_annotations(space)}:
            return space
    raise ValueError(f"{where}: no keyspace has all of {', '.join(header.keys)}")


def _argument(header: Header, name: str) -> str:
    """A keyword as Python writes it; the dots of the last one make it a sequence."""
    kind, given, default = header.types[name].removeprefix(":").partition("=")
    written = " | ".join(kind.split("|")) or "str"
    if name == header.rest:
        return f"{name}: Sequence[{written}]"
    # Nothing behind the `=` is the empty text, whatever else the argument may be.
    value = default if default.isdigit() else repr(default)
    return f"{name}: {written} = {value}" if given else f"{name}: {written}"


def _reply(said: str, replies: ModuleType, where: str) -> tuple[str, str]:
    """What reads a reply, and the type that comes of it."""
    if not said:
        raise ValueError(f"{where} must say behind its arguments what it replies: `-> int`")
    if inspect.isfunction(reader := getattr(replies, said, None)):
        return f"replies.{said}", _returned(reader)
    if said in _READERS:
        return said, "list[str]" if said == "texts" else said
    return "raw", ast.unparse(ast.parse(said, mode="eval"))


def _returned(reader: Any) -> str:
    """The type that a function of `replies.py` says it returns, as it is called from outside."""
    function = cast(ast.FunctionDef, ast.parse(inspect.getsource(reader)).body[0])
    returned = cast(ast.expr, function.returns)
    for each in ast.walk(returned):
        if isinstance(each, ast.Name) and each.id in vars(inspect.getmodule(reader)):
            each.id = f"replies.{each.id}"
    return ast.unparse(returned)

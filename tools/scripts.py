"""Headers of Lua scripts, written from their Python declarations.

What a script does is written once, as the first clause of its Python function's docstring. The
header in the `.lua` file repeats it and goes on with what readers of the file need: how the records
of an argument are laid out, what the reply holds. Arguments need no writing: the declaration of a
script whose header takes others fails at import.
"""

import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import waystation
from tools.reference import import_everything
from waystation.core.store.script import LuaScript

SOURCE = Path(waystation.__file__).parents[1]
WIDTH = 100

_CLAUSE = re.compile(r"^.*?(?=[;.:](?: |$))")
_SLOTS = re.compile(r"--- (keys|args|uses|lazy|unchecked)\b")


def headers() -> dict[Path, str]:
    """The text of every script with a current header, by its file."""
    import_everything()
    return {
        SOURCE / script.script.where: _current(script)
        for script in LuaScript.every
        if script.script.package.startswith("waystation.")
    }


def _current(script: LuaScript[Any, Any]) -> str:
    text = (SOURCE / script.script.where).read_text()
    declared = _first_clause(" ".join(inspect.cleandoc(script.__doc__ or "").split()))
    summary = script.header.summary
    if (present := _first_clause(summary)) == declared:
        return text
    lines = text.splitlines(keepends=True)
    above = next(at for at, line in enumerate(lines) if not line.startswith("---"))
    slots = next((at for at in range(above) if _SLOTS.match(lines[at])), above)
    written = textwrap.wrap(declared + summary.removeprefix(present), WIDTH - len("--- "))
    return "".join([*(f"--- {line}\n" for line in written), *lines[slots:]])


def _first_clause(text: str) -> str:
    found = _CLAUSE.match(text)
    return found.group() if found else text

"""Imports: modules that users name, and parts of ours that need optional dependencies."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from waystation.core.errors import BrokenModule, InvalidInput
from waystation.core.failure import message_of


def import_module(name: str) -> ModuleType:
    """Import a module, also from the working directory."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise BrokenModule(
                f"{name!r} cannot be imported: there is no {error.name} in {here}, "
                "and none is installed"
            ) from error
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> BrokenModule:
    what = f"{type(error).__name__}: {message_of(error)}"
    return BrokenModule(f"{name!r} cannot be imported: {_place(error)}: {what}")


def _place(error: Exception) -> str:
    """The last line of the user's own code, or the file with the syntax error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [each for each in frames if _is_theirs(each.filename)]
    last = (theirs or frames)[-1]
    return f"{last.filename}:{last.lineno}"


def _is_theirs(filename: str) -> bool:
    ours = (str(Path(__file__).parents[1]), "<frozen")
    return (
        not filename.startswith(ours)
        and "site-packages" not in filename
        and (Path(filename).parent != Path(importlib.__file__).parent)
    )


def load(module: str, *, extra: str | None, purpose: str) -> ModuleType:
    """Import a module of ours, or say which extra must be installed for its purpose."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if extra is None or (missing.name or "").startswith("waystation"):
            raise
        raise InvalidInput(
            f"{purpose} needs {missing.name}, which is not installed: "
            f"run pip install 'waystation[{extra}]', or make test in a clone"
        ) from missing

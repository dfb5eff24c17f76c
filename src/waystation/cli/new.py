"""`waystation new`: a small project that runs."""

import keyword
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from waystation.core.errors import InvalidOption

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_TAKEN = {*sys.stdlib_module_names, "pytest", "tests", "waystation"}


@app.command()
def new(
    path: Annotated[Path, typer.Argument(metavar="NAME", help="The project, a new directory.")],
    compose: Annotated[
        bool, typer.Option("--compose", help="Add a compose.yaml with a server.")
    ] = False,
) -> None:
    """Write a small project that runs: tasks, a program that adds jobs, and tests.

    Nothing that is there already is changed.
    """
    name = path.resolve().name
    package = name.lower().replace("-", "_")
    _check(name, package)
    _write(path, dict(_texts(name, package, compose=compose)))
    typer.echo(
        f"made {path}\n\n"
        f"  cd {shlex.quote(str(path))}\n"
        f"  waystation tasks work {package}.tasks:tasks --reload\n"
        f"  python -m {package}.add ada@example.org"
    )


def _check(name: str, package: str) -> None:
    if not (package.isascii() and package.isidentifier()) or keyword.iskeyword(package):
        raise InvalidOption(
            f"a project's name is letters, digits and dashes, a letter first; got {name!r}"
        )
    if package in _TAKEN:
        raise InvalidOption(f"{package} is the name of another package: take another one")


def _texts(name: str, package: str, *, compose: bool) -> Iterator[tuple[str, str]]:
    """The files of the project, by path."""
    folder = files("waystation.cli") / "project"

    def text(source: str) -> str:
        template = Template((folder / f"{source}.in").read_text(encoding="utf-8"))
        return template.substitute(name=name, package=package)

    yield "pyproject.toml", text("pyproject.toml")
    yield ".gitignore", text("gitignore")
    yield "README.md", text("README.md") + (text("compose.md") if compose else "")
    if compose:
        yield "compose.yaml", text("compose.yaml")
    yield f"{package}/__init__.py", text("package.py")
    yield f"{package}/tasks.py", text("tasks.py")
    yield f"{package}/add.py", text("add.py")
    yield "tests/test_tasks.py", text("test_tasks.py")


def _write(path: Path, texts: dict[str, str]) -> None:
    """Write the project beside its place and move it there whole, unless something is there."""
    if not path.parent.is_dir():
        raise InvalidOption(f"there is no directory {path.parent}")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as beside:
            made = Path(beside, path.name)
            for name, text in texts.items():
                file = made / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            # Only an empty directory is replaced.
            os.rename(made, path)
    except OSError as error:
        if path.exists():
            raise InvalidOption(f"{path} is there already, and is left as it is") from None
        raise InvalidOption(f"{path} cannot be written: {error.strerror}") from None

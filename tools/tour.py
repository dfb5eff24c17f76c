"""Tour pages, each a test file read top to bottom: its words become text, its code stays code."""

import ast
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

OPENINGS = {
    "redis_url": "async with embedded_server() as redis_url:",
    "tmp_path": "tmp_path = Path(mkdtemp())",
    "clock": "clock = HandClock()",
    "room": 'async with Room("{tickets}", redis_url, clock=clock) as room:',
}
"""What a test is handed, as somebody would write it who tries a stop out."""
NEEDED = {
    "redis_url": ["from waystation.testing import embedded_server"],
    "tmp_path": ["from pathlib import Path", "from tempfile import mkdtemp"],
}
"""The imports of these lines, where the test has none."""

STOP = "...  # a stop of this page"
WORDS = "Each stop below runs as it stands in place of the dots; what it asserts holds."

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "tour"


def pages() -> dict[str, str]:
    """The text of every tour page by its place under `docs`."""
    return {
        f"tour/{file.stem.removeprefix('test_')}.md": page(file)
        for file in sorted(TESTS.glob("test_*.py"))
    }


def page(file: Path) -> str:
    """One page: the module's docstring, a program around the stops, then a section for each."""
    source = file.read_text()
    module = ast.parse(source)
    functions = [node for node in module.body if isinstance(node, Function)]
    stops = [node for node in functions if node.name.startswith("test_")]
    # What is decorated is a fixture; the program around the stops has its like.
    helpers = [node for node in functions if node not in stops and not node.decorator_list]
    title, _, intro = (ast.get_docstring(module) or file.stem).partition("\n")
    parts = [
        f"# {title.rstrip('.')}",
        f"<!-- Written by `make docs` from {file.relative_to(ROOT)}; change that. -->",
        _paragraphs(intro),
        WORDS,
        _code(_program(module, source, stops, helpers)),
        *(part for stop in stops for part in _section(stop, source)),
        f"*Every line of code on this page is run by `{file.relative_to(ROOT)}`.*",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _program(
    module: ast.Module, source: str, stops: Sequence[Function], helpers: Sequence[Function]
) -> str:
    handed = {each.arg for stop in stops for each in stop.args.args}
    shown = [ast.get_source_segment(source, node) or "" for node in helpers]
    needed = "\n".join([*shown, *(ast.unparse(stop) for stop in stops)])
    imports = {"import asyncio": None} | dict.fromkeys(_imports(module, source, needed))
    lines, inside = list[str](), "    "
    for name, opening in OPENINGS.items():
        if name in handed or (name == "redis_url" and "room" in handed):
            lines.append(inside + opening)
            inside += "    " * opening.endswith(":")
            imports |= dict.fromkeys(NEEDED.get(name, ()))
    main = "\n".join(["async def main() -> None:", *lines, inside + STOP])
    return "\n\n".join(["\n".join(imports), *shown, main, "asyncio.run(main())"])


def _imports(module: ast.Module, source: str, needed: str) -> list[str]:
    """The imports that stops and helpers need; a fixture may need others."""
    return [
        ast.get_source_segment(source, node) or ""
        for node in module.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any((name.asname or name.name) in needed for name in node.names)
    ]


def _section(node: Function, source: str) -> list[str]:
    heading = node.name.removeprefix("test_").replace("_", " ")
    words = ast.get_docstring(node)
    body = node.body[1:] if words else node.body
    lines = source.splitlines()
    # A comment above the first statement belongs to it.
    first = node.body[0].end_lineno if words else node.body[0].lineno - 1
    shown = textwrap.dedent("\n".join(lines[first : body[-1].end_lineno]))
    return [f"## {heading[0].upper()}{heading[1:]}", _paragraphs(words or ""), _code(shown)]


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n")).strip()


def _code(text: str) -> str:
    return f"```python\n{text.strip()}\n```"

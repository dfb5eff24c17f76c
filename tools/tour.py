"""Tour pages, each a test file read top to bottom: its words become text, its code stays code."""

import ast
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "tour"


def pages() -> dict[str, str]:
    """The text of every tour page by its place under `docs`."""
    return {
        f"tour/{file.stem.removeprefix('test_')}.md": page(file)
        for file in sorted(TESTS.glob("test_*.py"))
    }


def page(file: Path) -> str:
    """One page: the module's docstring, the imports, then a section for each test."""
    source = file.read_text()
    module = ast.parse(source)
    title, _, intro = (ast.get_docstring(module) or file.stem).partition("\n")
    parts = [f"# {title.rstrip('.')}"]
    parts.append(f"<!-- Written by `make docs` from {file.relative_to(ROOT)}; change that. -->")
    parts.append(_paragraphs(intro))
    parts.append(_code("\n".join(_imports(module, source))))
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts += _section(node, source)
        elif isinstance(node, ast.ClassDef):
            parts.append(_code(ast.get_source_segment(source, node) or ""))
    parts.append(f"*Every line of code on this page is run by `{file.relative_to(ROOT)}`.*")
    return "\n\n".join(part for part in parts if part) + "\n"


def _imports(module: ast.Module, source: str) -> list[str]:
    nodes = [node for node in module.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return [ast.get_source_segment(source, node) or "" for node in nodes]


def _section(node: ast.FunctionDef | ast.AsyncFunctionDef, source: str) -> list[str]:
    """A test becomes a heading and its body; any other function is shown as it is."""
    if not node.name.startswith("test_"):
        return [_code(ast.get_source_segment(source, node) or "")]
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

"""Reference pages of HTTP APIs, written from the endpoints."""

from collections.abc import Iterator, Mapping

from waystation.core.http.endpoints import declared

MADE = "<!-- Written by `make docs` from the declarations in src; change those. -->"


def page(title: str, intro: str, parts: Mapping[str, tuple[type, ...]]) -> str:
    """A page as Markdown: a table of endpoints for each part."""
    return "\n\n".join([f"# {title}", MADE, intro, *_tables(parts)]) + "\n"


def _tables(parts: Mapping[str, tuple[type, ...]]) -> Iterator[str]:
    for title, kinds in parts.items():
        rows = [
            f"| `{said.method} {said.path}` | {said.scope or 'nothing'} | {summary} |"
            for kind in kinds
            for said, summary in declared(kind)
        ]
        head = (f"## {title}", "", "| endpoint | needs | what for |", "|---|---|---|")
        yield "\n".join([*head, *rows])

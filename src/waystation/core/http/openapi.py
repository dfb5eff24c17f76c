"""The OpenAPI document, generated from the endpoints."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from waystation import __version__
from waystation.core import codec
from waystation.core.http.endpoints import Endpoint, Table, declared
from waystation.core.http.problems import ProblemBody

_SLOT = re.compile(r"\{(\w+)\}")
_REF = "#/components/schemas/{name}"
_SHOWN = {"ticket": "ticket", "session": "session"}
"""What has to be shown, by scope; all others are what an operator's key allows."""


def document(table: Table, *, title: str) -> bytes:
    """The whole document as JSON."""
    endpoints = [each for each in table if each.group != "pages"]
    kinds = [ProblemBody, *{kind: None for each in endpoints for kind in _kinds(each)}]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_kind)
    return codec.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": title, "version": __version__},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "ticket": {"type": "http", "scheme": "bearer"},
                    "operator": {"type": "http", "scheme": "bearer"},
                    "session": {"type": "apiKey", "in": "header", "name": "Wr-Session"},
                },
            },
        }
    )


def _kinds(endpoint: Endpoint) -> list[Any]:
    return [kind for kind in (endpoint.takes, *endpoint.gives.values()) if kind is not None]


def _operation(endpoint: Endpoint, schemas: dict[Any, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {
        str(status): _answer(status, schemas.get(kind) if kind is not None else None)
        for status, kind in endpoint.gives.items()
    }
    problem = {"application/problem+json": {"schema": schemas[ProblemBody]}}
    for status in endpoint.fails:
        answers[str(status)] = {"description": "A problem", "content": problem}
    answers["default"] = {"description": "A problem", "content": problem}
    said: dict[str, Any] = {
        "summary": endpoint.summary,
        "tags": [endpoint.group],
        "operationId": _id_of(endpoint),
        "parameters": [
            *(
                {"name": n, "in": "path", "required": True, "schema": {"type": "string"}}
                for n in _SLOT.findall(endpoint.path)
            ),
            *(
                {"name": n, "in": "query", "required": n in endpoint.needs, "schema": s}
                for n, s in endpoint.query.items()
            ),
        ],
        "responses": answers,
    }
    if endpoint.takes is not None:
        said["requestBody"] = {
            "required": _is_needed(endpoint.takes),
            "content": {"application/json": {"schema": schemas[endpoint.takes]}},
        }
    if endpoint.scope is not None:
        said["security"] = [{_SHOWN.get(endpoint.scope, "operator"): list[str]()}]
    return said


def _is_needed(kind: Any) -> bool:
    """Whether nothing at all, which is read as an empty object, is not enough."""
    try:
        msgspec.convert({}, kind)
    except msgspec.ValidationError:
        return True
    return False


def _answer(status: int, schema: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"description": "As asked" if status < 300 else "See there"}
    if schema is not None:
        response["content"] = {"application/json": {"schema": schema}}
    return response


def _id_of(endpoint: Endpoint) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", endpoint.path).strip("_")
    return f"{endpoint.method.lower()}_{words}"


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

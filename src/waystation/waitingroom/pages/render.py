"""Templates: every value is escaped unless it is markup of our own."""

import html
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import msgspec


class Markup(str):
    """Text that is HTML already, and ours."""

    __slots__ = ()


@cache
def _file(name: str) -> str:
    return files(__package__ or "").joinpath(name).read_text("utf-8")


@cache
def _template(name: str) -> Template:
    return Template(_file(name))


def source(name: str) -> Markup:
    """A style sheet or script of ours."""
    return Markup(_file(name))


def facts(value: Any) -> Markup:
    """Data for a script; no `<` survives that could end the element it stands in."""
    text = msgspec.json.encode(value).decode()
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026").replace("\u2028", "\\u2028"))


def fill(template: str, values: dict[str, str]) -> bytes:
    """A page."""
    safe = {
        name: value if isinstance(value, Markup) else html.escape(value)
        for name, value in values.items()
    }
    return _template(template).substitute(safe).encode()

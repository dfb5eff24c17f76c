"""The page of the Python interface: what each package offers, read off its code."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple, is_typeddict

import msgspec

PACKAGES = {
    "bullmq": "Jobs on the wire of Node's BullMQ.",
    "sync": "bullmq without an event loop: the same names, without `await`.",
    "tasks": "Typed functions whose calls are jobs of bullmq.",
    "routing": "Jobs that ask for a kind of worker.",
    "files": "A directory turned into work.",
    "waitingroom": "People instead of jobs.",
    "testing": "Tests of your own handlers and producers.",
}
LONGEST = 40
"""A default that takes more than that is not shown."""


class Field(NamedTuple):
    """One field of an option, as its declaration says it."""

    name: str
    kind: str
    default: str
    meaning: str


def offered(name: str) -> list[tuple[str, Any]]:
    """What a package offers, by name; errors have a page of their own."""
    package = import_module(f"waystation.{name}")
    things = ((name, getattr(package, name)) for name in package.__all__)
    return [
        (name, thing)
        for name, thing in sorted(things, key=lambda each: (each[0].lower(), each[0]))
        if not (inspect.isclass(thing) and issubclass(thing, Exception))
        # Keywords repeat the fields of an options struct, which is on the page.
        and not is_typeddict(thing)
        and (inspect.isclass(thing) or inspect.isfunction(thing))
    ]


def fields(kind: type) -> list[Field]:
    """The fields of a struct, those it inherits included."""
    known: dict[str, Field] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("waystation."):
            known |= {field.name: field for field in _declared(each)}
    return list(known.values())


def is_option(kind: Any) -> bool:
    """Whether it is a bundle of values rather than something that acts."""
    return inspect.isclass(kind) and (
        issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind)
    )


def methods(kind: type) -> list[tuple[str, str]]:
    """How each public method is called, and what it does."""
    return [
        (called(name, method), inspect.getdoc(method) or "")
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and inspect.getdoc(method) and not is_internal(method)
    ]


def is_internal(thing: Any) -> bool:
    """Whether its docstring says that programs do not call it."""
    return (inspect.getdoc(thing) or "").startswith("Internal:")


def called(name: str, thing: Any) -> str:
    """A call, with what may be left out."""
    given: list[str] = []
    for each in inspect.signature(thing).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not any(text.startswith("*") for text in given):
            given.append("*")
        given.append(_parameter(each))
    return f"{name}({', '.join(text for text in given if text != 'self')})"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    if each.default is each.empty:
        return stars + each.name
    shown = repr(each.default)
    return f"{each.name}={'…' if len(shown) > LONGEST or '<' in shown else shown}"


def _declared(kind: type) -> Iterator[Field]:
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body: list[ast.stmt] = getattr(declared, "body", [])
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        kind_of = _type(node.annotation)
        if node.target.id.startswith("_") or kind_of.startswith("ClassVar"):
            continue
        yield Field(node.target.id, kind_of, _default(node.value), _words(after))


def _type(annotation: ast.expr) -> str:
    """An annotation without its quotes and without the limits that are checked when it is read."""
    match annotation:
        case ast.Subscript(ast.Name("Annotated"), ast.Tuple([kind, *_])):
            return _type(kind)
        case _:
            text = ast.unparse(annotation)
            return text if "Literal[" in text else text.replace("'", "")


def _default(value: ast.expr | None) -> str:
    match value:
        case None:
            return "required"
        # The call says how the field is stored, too; only its default is of interest here.
        case ast.Call(ast.Attribute(_, "field"), [], keywords):
            given = {each.arg: each.value for each in keywords}
            return _default(given.get("default")) if "default_factory" not in given else "…"
        case _:
            shown = f"`{ast.unparse(value)}`"
            return shown if len(shown) <= LONGEST else "…"


def _words(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""

"""A walk through everything that a public module shows: names, signatures, attributes, types."""

import ast
import builtins
import functools
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from tools.python import is_internal

_CALLED = ("__init__", "__call__", "__iter__", "__aiter__", "__next__", "__anext__")


def exported(modules: tuple[str, ...]) -> set[Any]:
    """Everything that users can import by name."""
    return {id(each) for name in modules for _, each in public_names(name)}


def public_names(module: str) -> Iterator[tuple[str, Any]]:
    """The names of a public module and what they stand for."""
    found = importlib.import_module(module)
    for name in getattr(found, "__all__", ()):
        yield name, getattr(found, name)


def shown_types(name: str, thing: Any) -> Iterator[tuple[str, type]]:
    """Every class of ours in the annotations of a public thing, and where it is shown."""
    for place, annotation in _annotations(name, thing):
        for each in _leaves(annotation):
            if each.__module__.split(".")[0] == "waystation":
                yield place, each


def without_a_sentence(name: str, thing: Any) -> Iterator[str]:
    """The classes, methods and functions of a public thing that nothing explains."""
    if inspect.isclass(thing) or inspect.isfunction(thing):
        if not _is_sentence(thing.__doc__ if inspect.isclass(thing) else inspect.getdoc(thing)):
            yield name
        for method, function in _functions(thing) if inspect.isclass(thing) else ():
            if method not in _CALLED and not _is_sentence(inspect.getdoc(function)):
                yield f"{name}.{method}"


def _is_sentence(text: str | None) -> bool:
    # msgspec and typing write texts of their own for classes without any.
    return bool(text) and (text or "").split("\n\n")[0].rstrip().endswith((".", ":", "…"))


def _annotations(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isclass(thing):
        for each in thing.__mro__:
            if each.__module__.split(".")[0] == "waystation":
                for field, annotation in _hints(each).items():
                    if not field.startswith("_"):
                        yield f"{name}.{field}", annotation
        for method, function in _functions(thing):
            for annotation in _of_function(function):
                yield f"{name}.{method}", annotation
    elif inspect.isfunction(thing):
        for annotation in _of_function(thing):
            yield name, annotation
    else:
        yield name, thing


def _of_function(function: Any) -> Iterator[Any]:
    for each in [*typing.get_overloads(function)] or [function]:
        yield from _hints(each).values()


def _functions(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, its parents' included."""
    for name in dir(kind):
        if name.startswith("_") and name not in _CALLED:
            continue
        found: Any = inspect.getattr_static(kind, name)
        if isinstance(found, property):
            found = found.fget
        elif isinstance(found, functools.cached_property):
            found = found.func
        found = getattr(found, "__func__", found)
        if not inspect.isfunction(found) or is_internal(found):
            continue
        if found.__module__.split(".")[0] == "waystation":
            yield name, found


def _hints(thing: Any) -> dict[str, Any]:
    own: Mapping[str, Any] = vars(thing) if inspect.isclass(thing) else {}
    names = _Names(sys.modules[thing.__module__], own)
    return typing.get_type_hints(thing, {}, names, include_extras=True)


class _Names(dict[str, Any]):
    """The names that annotations of one module may use."""

    def __init__(self, module: types.ModuleType, own: Mapping[str, Any]) -> None:
        super().__init__(vars(builtins) | _only_for_types(module) | vars(module))
        self.update({name: each for name, each in own.items() if inspect.isclass(each)})
        self._package = module.__name__.rpartition(".")[0]

    def __missing__(self, name: str) -> Any:
        # An alias in another module may name things that only its own module knows.
        while self._package:
            for module, known in [*sys.modules.items()]:
                if module.startswith(self._package) and name in vars(known):
                    return vars(known)[name]
            self._package = self._package.rpartition(".")[0]
        raise KeyError(name)


@functools.cache
def _only_for_types(module: types.ModuleType) -> dict[str, Any]:
    """What a module imports for type checkers alone."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for each in ast.walk(node):
                if isinstance(each, ast.ImportFrom) and each.module:
                    source = importlib.import_module(each.module)
                    for alias in each.names:
                        found[alias.asname or alias.name] = getattr(source, alias.name)
    return found


def _leaves(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, list | tuple):
        for each in typing.cast("list[Any]", annotation):
            yield from _leaves(each)
    elif isinstance(annotation, typing.TypeVar):
        yield from _leaves(annotation.__bound__)
        yield from _leaves(annotation.__constraints__)
    elif typing.get_origin(annotation) is typing.Literal:
        return
    elif arguments := typing.get_args(annotation):
        yield from _leaves(typing.get_origin(annotation))
        yield from _leaves(arguments)
    elif isinstance(annotation, type):
        yield annotation

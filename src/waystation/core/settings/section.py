"""Sections of the settings: frozen structs whose fields are the settings.

A setting is declared once, as a field: its name, its type, its default and, under it, its sentence.
An option struct of the library is a section as it stands; what a file cannot say, such as a
function, is no setting. Numbers are bounded by `msgspec.Meta`; a section that needs another check
has a `__post_init__` that raises `InvalidOption`, whose message begins with the field's name.
"""

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

from waystation.core.durations import SECONDS, format_duration, seconds
from waystation.core.settings.sources import Key

Section: TypeAlias = msgspec.Struct

UNSET = "-"
HIDDEN = "***"

_SCALARS = (bool, int, float, str, Path)
_TOGETHER = (list, tuple, dict, Sequence, Mapping, Union, types.UnionType)


class Inherits(msgspec.Struct, frozen=True):
    """Marks a section in which whatever another one sets counts, too, unless it sets it itself."""

    section: str


class Setting(msgspec.Struct, frozen=True):
    """One setting, or one section inside another."""

    name: str
    """As it is written."""
    field: str
    """As the struct calls it."""
    kind: Any
    """Its type, without `None` and without its marks."""
    default: Any
    optional: bool = False
    marks: tuple[Any, ...] = ()
    """What `Annotated` says about it."""

    @property
    def section(self) -> type[Section] | None:
        """The struct, if this is a section."""
        return self.kind if is_struct(self.kind) else None

    @property
    def secret(self) -> bool:
        """Whether its value must not be printed."""
        return self.kind is Secret

    def text(self, value: Any) -> str:
        """A value of this setting as it may be printed."""
        if value is None:
            return UNSET
        if self.secret:
            return without_secrets(value)
        plain = self.plain(value)
        if not isinstance(plain, str):
            return msgspec.json.encode(plain).decode()
        return without_secrets(plain) if "://" in plain else plain

    def plain(self, value: Any) -> Any:
        """A value of this setting as a file would have it."""
        if value is None:
            return None
        if is_duration(self.kind, self.marks):
            return format_duration(seconds(value))
        return msgspec.to_builtins(value, enc_hook=str)


class Row(msgspec.Struct, frozen=True):
    """One setting with its whole key."""

    key: Key
    setting: Setting

    @property
    def name(self) -> str:
        """The key as people write it, `worker.lease`."""
        return ".".join(self.key)

    def shown_in(self, section: Section) -> str:
        """Its value as it may be printed."""
        value: Any = section
        for part in self.key:
            if value is None:  # a section that is left out
                break
            value = getattr(value, _fields(type(value))[part].field)
        return self.setting.text(value)


def rows(section: type[Section], above: Key = ()) -> Iterator[Row]:
    """All settings of a section and of the sections in it, in the order of their declaration."""
    for setting in settings(section):
        key = (*above, setting.name)
        if setting.section:
            yield from rows(setting.section, key)
        else:
            yield Row(key, setting)


def section_at(top: type[Section], key: Key) -> type[Section] | None:
    """The section with this key, which may be an item of a list; None when there is none."""
    section: type[Section] | None = top
    items: type[Section] | None = None
    for name in key:
        found = _fields(section).get(name) if section else None
        section = found.section if found else items
        items = _item(found.kind) if found else None
    return section


def _item(kind: Any) -> type[Section] | None:
    """What the items of a list are, if they have keys of their own."""
    inner = get_args(kind)[0] if get_origin(kind) in (list, tuple, Sequence) else None
    return inner if is_struct(inner) else None


def settings(section: type[Section]) -> Sequence[Setting]:
    """The settings of a section; fields that no file can set are left out."""
    return list(_fields(section).values())


@cache
def sentences(section: type[Section]) -> Mapping[str, str]:
    """The sentence under each field, by the field's name."""
    found: dict[str, str] = {}
    for kind in reversed(section.__mro__):
        if not is_struct(kind) or kind is msgspec.Struct or kind.__module__ == "builtins":
            continue
        try:
            source = textwrap.dedent(inspect.getsource(kind))
        except (OSError, TypeError):
            continue
        body = ast.parse(source).body[0]
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for field, text in pairwise(statements):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match text:
                    case ast.Expr(value=ast.Constant(value=str(sentence))):
                        found[field.target.id] = inspect.cleandoc(sentence)
                    case _:
                        found.setdefault(field.target.id, "")
    return found


def is_struct(kind: Any) -> bool:
    """Whether this is a struct, so that it can be a section."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def is_duration(kind: Any, marks: Sequence[Any] = ()) -> bool:
    """Whether values of this type are durations, `timedelta` or seconds."""
    return SECONDS in marks or timedelta in get_args(kind)


@cache
def _fields(section: type[Section]) -> Mapping[str, Setting]:
    names, defaults = section.__struct_fields__, section.__struct_defaults__
    required = (msgspec.NODEFAULT,) * (len(names) - len(defaults))
    hints = _hints(section)
    found = [
        _setting(name, written, hints[name], default)
        for name, written, default in zip(
            names, section.__struct_encode_fields__, (*required, *defaults), strict=True
        )
    ]
    return {each.name: each for each in found if _can_be_written(each.kind)}


def _hints(section: type[Section]) -> Mapping[str, Any]:
    """The type of each field; one that names what its module does not have is no setting's."""
    hints: dict[str, Any] = {}
    for kind in reversed(section.__mro__):
        for name, hint in vars(kind).get("__annotations__", {}).items():
            alone = type(name, (), {"__annotations__": {name: hint}, "__module__": kind.__module__})
            try:
                hints |= get_type_hints(alone, include_extras=True)
            except NameError:
                hints[name] = object
    return hints


def _setting(name: str, written: str, hint: Any, default: Any) -> Setting:
    kind, marks = unwrapped(hint)
    optional = False
    if get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind):
        optional = True
        parts = [part for part in get_args(kind) if part is not type(None)]
        kind, more = unwrapped(parts[0]) if len(parts) == 1 else (Union[tuple(parts)], ())  # noqa: UP007
        marks += more
    if hasattr(default, "factory"):
        default = default.factory()
    return Setting(written, name, kind, default, optional, marks)


def unwrapped(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without what `Annotated` says about it, and that."""
    if get_origin(kind) is Annotated:
        bare, *marks = get_args(kind)
        return bare, tuple(marks)
    return kind, ()


def _can_be_written(kind: Any) -> bool:
    kind, _ = unwrapped(kind)
    if is_struct(kind) or is_duration(kind) or get_origin(kind) is Literal:
        return True
    if isinstance(kind, type) and get_origin(kind) is None:
        return issubclass(kind, (*_SCALARS, Enum))
    inner = [each for each in get_args(kind) if each is not ...]
    return get_origin(kind) in _TOGETHER and all(map(_can_be_written, inner))


class Secret(str):
    """Text that is masked wherever it is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(HIDDEN)


_HOST = r"(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d{1,5})?"
_HOSTS_AND_PATH = re.compile(rf"(?:{_HOST}(?:,{_HOST})*)?(?:/[\w./%~-]*)?")


def without_secrets(url: str) -> str:
    """A store's address as it may be printed: nothing that could be a part of a password."""
    scheme, found, rest = url.partition("://")
    if not found or not re.fullmatch(r"[a-z][a-z+]*", scheme):
        return HIDDEN
    before, at, address = rest.rpartition("@")
    address, options, _ = address.partition("?")
    # An @ after the ? may belong to a password on either side of it, and a host that repeats the
    # password would show it.
    password = before.rpartition(":")[2]
    if (
        "?" in before
        or "#" in before
        or not _HOSTS_AND_PATH.fullmatch(address)
        or (password and password in address)
    ):
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{HIDDEN if at else ''}{at}{address}{options}{HIDDEN if options else ''}"

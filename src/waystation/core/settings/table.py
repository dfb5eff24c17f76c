"""Every setting as one row, for the complaints, for `config show` and for the reference page."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
from pydantic import SecretStr

from waystation.core.settings.section import Section
from waystation.core.settings.sources import Key

UNSET = "-"
HIDDEN = "***"

_HOST = r"(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d{1,5})?"
_HOSTS_AND_PATH = re.compile(rf"(?:{_HOST}(?:,{_HOST})*)?(?:/[\w./%~-]*)?")


class Setting(msgspec.Struct, frozen=True):
    """One setting: its key, what it means, and whether its value is a secret."""

    key: Key
    meaning: str
    secret: bool

    @property
    def name(self) -> str:
        """The key as people write it, `worker.lease`."""
        return ".".join(self.key)

    def shown_in(self, settings: Section) -> str:
        """Its value as it may be printed."""
        value: Any = settings.model_dump(mode="json")
        secret: Any = settings
        for part in self.key:
            value, secret = value[part], getattr(secret, part)
        if value is None:
            return UNSET
        if self.secret:
            return without_secrets(secret.get_secret_value())
        if not isinstance(value, str):
            return msgspec.json.encode(value).decode()
        return without_secrets(value) if "://" in value else value


def table(section: type[Section], above: Key = ()) -> Iterator[Setting]:
    """All settings of a section and of the sections in it, in the order of their declaration."""
    for name, field in section.model_fields.items():
        key = (*above, name)
        if inner := _as_section(field.annotation):
            yield from table(inner, key)
        else:
            yield Setting(key, field.description or "", _is_secret(field.annotation))


def section_at(key: Key, top: type[Section]) -> type[Section] | None:
    """The section with this key; None when there is none."""
    section: type[Section] | None = top
    for name in key:
        field = section.model_fields.get(name) if section else None
        section = _as_section(field.annotation) if field else None
    return section


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


def _as_section(annotation: Any) -> type[Section] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(_is_secret(part) for part in get_args(annotation))

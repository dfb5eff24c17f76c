"""The page of the documentation that lists every setting."""

from collections.abc import Iterator, Mapping
from typing import Any

from waystation.cli.sections import SECTIONS
from waystation.core.settings.load import together
from waystation.core.settings.schema import type_schema
from waystation.core.settings.section import UNSET, Row, is_duration, rows, section_at, sentences
from waystation.core.settings.sources import variable_of

SETTINGS = together(SECTIONS)

_HEAD = """\
# Settings

Written in `waystation.yaml`, in the file that `--config` or `WAYSTATION_CONFIG` names, or in the
environment, which wins: `worker.lease` is `WAYSTATION_WORKER__LEASE`. Durations are written as
`500ms`, `30s` or `1h30m`. `waystation config show` prints what is in force and where it was set;
`waystation config schema` prints a JSON schema for editors.
"""


def page() -> str:
    """Write the page from the declarations."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    above: tuple[str, ...] = ()
    for row in rows(SETTINGS):
        if row.key[:-1] != above:
            above = row.key[:-1]
            yield _heading(above)
        yield _line(row)
    yield ""


def _heading(key: tuple[str, ...]) -> str:
    section = section_at(SETTINGS, key)
    meaning = section.__doc__ if section else ""
    return (
        f"\n## {'.'.join(key)}\n\n{meaning}\n\n"
        "| setting | type | default | description |\n|---|---|---|---|"
    )


def _line(row: Row) -> str:
    default = row.shown_in(SETTINGS())
    shown = "" if default == UNSET else f"`{default}`"
    section = section_at(SETTINGS, row.key[:-1])
    meaning = sentences(section).get(row.setting.field, "") if section else ""
    variable = variable_of(row.key)
    return (
        f"| `{row.name}`<br>`{variable}` | {_type(row)} | {shown} | {' '.join(meaning.split())} |"
    )


def _type(row: Row) -> str:
    found = type_schema(row.setting.kind, row.setting.marks)
    if "enum" in found:
        return ", ".join(f"`{each}`" for each in found["enum"])
    if is_duration(row.setting.kind, row.setting.marks):
        return "duration"
    if "anyOf" in found:
        return " or ".join(_word(each) for each in found["anyOf"])
    return _word(found)


def _word(found: Mapping[str, Any]) -> str:
    words = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    words |= {"array": "list", "object": "keys and values"}
    return words.get(str(found["type"]), str(found["type"]))


if __name__ == "__main__":
    print(page(), end="")

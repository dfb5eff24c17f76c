"""The page of the documentation that lists every setting."""

from collections.abc import Iterator

from waystation.cli.sections import SECTIONS
from waystation.core.settings.load import model
from waystation.core.settings.sources import variable_of
from waystation.core.settings.table import UNSET, Setting, section_at, table

SETTINGS = model(SECTIONS)

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
    for setting in table(SETTINGS):
        if setting.key[:-1] != above:
            above = setting.key[:-1]
            yield _heading(above)
        yield _row(setting)
    yield ""


def _heading(key: tuple[str, ...]) -> str:
    section = section_at(key, SETTINGS)
    meaning = section.__doc__ if section else ""
    return f"\n## {'.'.join(key)}\n\n{meaning}\n\n| setting | default | meaning |\n|---|---|---|"


def _row(setting: Setting) -> str:
    default = setting.shown_in(SETTINGS())
    shown = "" if default == UNSET else f"`{default}`"
    variable = variable_of(setting.key)
    return f"| `{setting.name}`<br>`{variable}` | {shown} | {setting.meaning} |"


if __name__ == "__main__":
    print(page(), end="")

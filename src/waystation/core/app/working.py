"""What every `work` command shares: the handler it names, and how long it waits for its store."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias, cast

import msgspec
import typer

from waystation.core.app.modules import import_module
from waystation.core.app.settings import StoreSettings
from waystation.core.durations import parse_duration
from waystation.core.errors import InvalidOption
from waystation.core.settings.load import Settings

JobHandler: TypeAlias = Callable[[Any], Any]

Wait: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long to wait for a store that is away, such as 30s; else the setting store.wait.",
    ),
]


def waiting(settings: Settings, wait: str | None) -> Settings:
    """The settings, with what the option `--wait` says."""
    if wait is None:
        return settings
    store = msgspec.structs.replace(settings[StoreSettings], wait=parse_duration(wait))
    return settings.replaced(store)


def handler_at(place: str) -> JobHandler | Mapping[str, JobHandler]:
    """Import what `module:name` names, also from the directory that the command runs in."""
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise InvalidOption(f"a handler is given as module:name, got {place!r}")
    module = import_module(module_name)
    if not hasattr(module, name):
        raise InvalidOption(f"{module_name} has no {name}")
    found: Any = getattr(module, name)
    if isinstance(found, Mapping):
        handlers = cast(Mapping[str, Any], found)
        if handlers and all(callable(each) for each in handlers.values()):
            return handlers
    elif callable(found):
        return found
    raise InvalidOption(
        f"{place} must be a function, or functions by the name of the job, got {found!r}"
    )

"""Key prefixes of the products, as the settings have them."""

import typer

from waystation.bullmq.redis.keys import PREFIX
from waystation.core.app import invocation
from waystation.core.events import Line
from waystation.core.settings.load import text_of

_SETTINGS = {
    Line.BULLMQ.value: ("bullmq", "prefix"),
    Line.ROUTING.value: ("routing", "namespace"),
    Line.FILES.value: ("files", "namespace"),
}


def prefixes(context: typer.Context) -> str:
    """The prefixes that the settings name, as the option `prefix` of `waystation.events`."""
    # Read without their sections, which import workers: that takes longer than many an answer.
    file = invocation.of(context).config
    named = {line: text_of(key, file) for line, key in _SETTINGS.items()}
    return ",".join(f"{line}={prefix}" for line, prefix in named.items() if prefix)


def bullmq_prefix(context: typer.Context) -> str:
    """The prefix of BullMQ's keys."""
    return text_of(_SETTINGS[Line.BULLMQ.value], invocation.of(context).config) or PREFIX

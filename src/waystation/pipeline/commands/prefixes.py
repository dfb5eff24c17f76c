"""Key prefixes of the products, as the settings have them."""

import typer

from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.redis.prefixes import Prefixes, check_several
from waystation.core.app import invocation
from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.events import Line
from waystation.core.settings.load import text_of
from waystation.pipeline.commands.place import pipeline_settings

_BULLMQ = ("bullmq", "prefix")
_OTHERS = {
    Line.ROUTING.value: ("routing", "namespace"),
    Line.FILES.value: ("files", "namespace"),
}


def prefixes(context: typer.Context) -> str:
    """The prefixes that the settings name, as the option `prefix` of `waystation.events`."""
    # Read without their sections, which import workers: that takes longer than many an answer.
    file = invocation.of(context).config
    named = [(Line.BULLMQ.value, each) for each in bullmq_prefixes(context).every]
    named += [(line, text_of(key, file) or "") for line, key in _OTHERS.items()]
    return ",".join(f"{line}={prefix}" for line, prefix in named if prefix)


def bullmq_prefixes(context: typer.Context) -> Prefixes:
    """The prefixes of BullMQ's keys: that of the workers, then the others that are followed."""
    first = text_of(_BULLMQ, invocation.of(context).config) or PREFIX
    every = (first, *pipeline_settings(context).prefixes)
    if len(every) > 1:
        try:
            check_several(every)
        except InvalidOption as error:
            raise InvalidSetting(f"pipeline.prefixes and bullmq.prefix: {error}") from None
    return Prefixes(every)

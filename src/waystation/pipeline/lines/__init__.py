"""What each line adds to the history: one module per line."""

from collections.abc import Mapping

from waystation.core.errors import InvalidOption

from .bullmq import FACTS as BULLMQ
from .facts import LineFacts

LINES: Mapping[str, LineFacts] = {facts.line.value: facts for facts in (BULLMQ,)}


def line_named(name: str) -> LineFacts:
    """What is known about one line."""
    if name not in LINES:
        raise InvalidOption(f"line must be one of {', '.join(LINES)}, got {name!r}")
    return LINES[name]

"""What each line adds to the history: one module per line."""

from collections.abc import Iterator, Mapping

from waystation.core.errors import InvalidOption
from waystation.pipeline.products.bullmq import FACTS as BULLMQ
from waystation.pipeline.products.facts import LineAnswer, LineFacts
from waystation.pipeline.products.files import FACTS as FILES
from waystation.pipeline.products.routing import FACTS as ROUTING
from waystation.pipeline.products.waitingroom import FACTS as WAITINGROOM
from waystation.pipeline.tables import Table

LINES: Mapping[str, LineFacts] = {
    facts.line.value: facts for facts in (BULLMQ, ROUTING, FILES, WAITINGROOM)
}


def line_named(name: str) -> LineFacts:
    """What is known about one line."""
    if name not in LINES:
        raise InvalidOption(f"line must be one of {', '.join(LINES)}, got {name!r}")
    return LINES[name]


def answers_of_all_lines() -> Iterator[tuple[str, LineAnswer]]:
    """The tables that only some lines have, each with its line."""
    for name, facts in LINES.items():
        for answer in facts.answers:
            yield name, answer


def tables_of_all_lines() -> Iterator[Table]:
    """What those tables are."""
    return (answer.table for _, answer in answers_of_all_lines())

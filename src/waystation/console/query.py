"""Search queries, and the jobs that they match."""

import re
from datetime import datetime
from typing import NamedTuple

import msgspec

from waystation.console.products.views import JobView
from waystation.core import codec
from waystation.core.errors import InvalidInput
from waystation.core.options import nearest

LONGEST = 400
"""Characters of a search."""
FIELDS = ("id", "name", "state", "error", "queue", "product", "failure")
_LIKE_A_FIELD = re.compile(r"([a-z_][a-z0-9_.]*):([^:/][^:]*)")
"""What is meant as a field; not a URL, a time, a class with its message, or an id with colons."""


class Query(msgspec.Struct, frozen=True):
    """What is searched for; all of it has to fit."""

    words: tuple[str, ...] = ()
    """Found anywhere in the id, the name, the error or the data, in capitals or not."""
    fields: tuple[tuple[str, str], ...] = ()
    """By name: id, name, state, error, queue, product, failure, or a path such as data.user.id."""

    def get(self, name: str) -> str:
        """What a field has to be; empty when that does not matter."""
        return next((value for field, value in self.fields if field == name), "")

    @property
    def is_of_states(self) -> bool:
        """Whether jobs fit by their queue and state alone, so that they can be counted unread."""
        return not self.words and {name for name, _ in self.fields} <= {"queue", "product", "state"}


class PastJob(msgspec.Struct, kw_only=True):
    """A job as the history remembers it."""

    product: str
    queue: str
    id: str
    name: str | None
    state: str | None
    added_at: datetime | None
    ended_at: datetime | None
    attempts: int | None
    error: str | None
    data: str | None
    """The beginning of the data; None when the history did not keep it."""


class PastFound(NamedTuple):
    """What a search has found in the history."""

    jobs: list[PastJob]
    complete: bool
    """False when there are more."""
    took_ms: float


def parse(text: str) -> Query:
    """Read `state:failed error:timeout data.tenant:acme`, and free words; quotes hold together.

    What begins with a quote is no field, whatever is in it.
    """
    if len(text) > LONGEST:
        raise InvalidInput(f"a search may have {LONGEST} characters, got {len(text)}")
    words: list[str] = []
    fields: list[tuple[str, str]] = []
    for part, quoted in _split(text):
        name, colon, value = part.partition(":")
        if colon and value and not quoted and (name in FIELDS or name.startswith("data.")):
            fields.append((name, value))
        elif not quoted and _LIKE_A_FIELD.fullmatch(part):
            raise InvalidInput(
                f"there is no field {name}; did you mean {nearest(name, FIELDS) or f'data.{name}'}?"
                f" A search knows {', '.join(FIELDS)} and data.…; in quotes it is a word"
            )
        else:
            words.append(part)
    if not words and not fields:
        raise InvalidInput("a search needs a word, or a field such as id:42 or data.tenant:acme")
    return Query(tuple(words), tuple(fields))


def _split(text: str) -> list[tuple[str, bool]]:
    """The parts between spaces, and whether each begins with a quote."""
    parts: list[tuple[str, bool]] = []
    part, quoted, begins = "", False, False
    for letter in f"{text} ":
        if letter == '"':
            quoted, begins = not quoted, begins or not part
        elif letter.isspace() and not quoted:
            parts.append((part, begins))
            part, begins = "", False
        else:
            part += letter
    return [each for each in (*parts, (part.rstrip(), begins)) if each[0]]


def fits(query: Query, job: JobView) -> bool:
    """Whether a job, with its whole data, is what is searched for."""
    text = folded(" ".join((job.id, job.name, job.error or "", job.data)))
    return all(folded(word) in text for word in query.words) and all(
        _field_fits(job, name, value) for name, value in query.fields
    )


def folded(text: str) -> str:
    """A text in lower case, with one letter for every i, dotted or not, which differ in Turkish."""
    return text.lower().replace("\u0131", "i").replace("\u0307", "")


def _field_fits(job: JobView, name: str, value: str) -> bool:
    match name:
        case "id":
            return job.id == value
        case "name" | "state":
            return folded(str(getattr(job, name))) == folded(value)
        case "error":
            return folded(value) in folded(job.error or "")
        case "queue" | "product":
            return True
        case "failure":
            return job.failure == value
        case _:
            return codec.text_at(job.data, name.removeprefix("data.")) == value

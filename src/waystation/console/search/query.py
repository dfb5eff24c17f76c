"""What may be searched for, and whether a job is that."""

from datetime import datetime

import msgspec

from waystation.console.products.views import JobView
from waystation.core import codec
from waystation.core.errors import InvalidInput

LONGEST = 400
"""Characters of a search."""
FIELDS = ("id", "name", "state", "error", "queue", "product")


class Query(msgspec.Struct, frozen=True):
    """What is searched for; all of it has to fit."""

    words: tuple[str, ...] = ()
    """Found anywhere in the id, the name, the error or the data, in capitals or not."""
    fields: tuple[tuple[str, str], ...] = ()
    """By name: id, name, state, error, queue, product, or a path such as data.user.id."""

    def get(self, name: str) -> str:
        """What a field has to be; empty when that does not matter."""
        return next((value for field, value in self.fields if field == name), "")


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


def parse(text: str) -> Query:
    """Read `state:failed error:timeout data.tenant:acme`, and free words; quotes hold together."""
    if len(text) > LONGEST:
        raise InvalidInput(f"a search may have {LONGEST} characters, got {len(text)}")
    words: list[str] = []
    fields: list[tuple[str, str]] = []
    for part in _split(text):
        name, colon, value = part.partition(":")
        if colon and value and (name in FIELDS or name.startswith("data.")):
            fields.append((name, value))
        elif part:
            words.append(part)
    if not words and not fields:
        raise InvalidInput("a search needs a word, or a field such as id:42 or data.tenant:acme")
    return Query(tuple(words), tuple(fields))


def _split(text: str) -> list[str]:
    parts, part, quoted = list[str](), "", False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        elif letter.isspace() and not quoted:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [each for each in (*parts, part) if each]


def fits(query: Query, job: JobView) -> bool:
    """Whether a job, with its whole data, is what is searched for."""
    text = " ".join((job.id, job.name, job.error or "", job.data)).lower()
    return all(word.lower() in text for word in query.words) and all(
        _field_fits(job, name, value) for name, value in query.fields
    )


def _field_fits(job: JobView, name: str, value: str) -> bool:
    match name:
        case "id":
            return job.id == value
        case "name" | "state":
            return str(getattr(job, name)).lower() == value.lower()
        case "error":
            return value.lower() in (job.error or "").lower()
        case "queue" | "product":
            return True
        case _:
            return codec.text_at(job.data, name.removeprefix("data.")) == value

"""Picking jobs by name, data and time, for lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from waystation.core import codec
from waystation.core.durations import parse_duration, seconds
from waystation.core.errors import InvalidOption

if TYPE_CHECKING:
    from waystation.bullmq import Job, Queue, State

_PAGE = 200
LOOK = 10_000
"""Jobs of a state that are looked at, unless more are asked for."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What the jobs of a list have to be."""

    names: Sequence[str] = ()
    data: Sequence[tuple[str, str]] = ()
    """Paths into the data and the texts that must stand there."""
    errors: Sequence[str] = ()
    """Texts that must stand in the error, in capitals or not."""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_any(self) -> bool:
        """True when every job fits."""
        return not (self.names or self.data or self.errors or self.since or self.until)

    def fits(self, job: Job) -> bool:
        """Whether a job is wanted."""
        if self.names and job.name not in self.names:
            return False
        if self.since and job.created_at < self.since:
            return False
        if self.until and job.created_at > self.until:
            return False
        said = (job.failed_reason or "").lower()
        if not all(each.lower() in said for each in self.errors):
            return False
        return all(codec.text_at(job.data_text, path) == text for path, text in self.data)


def wanted(
    names: Sequence[str] | None,
    data: Sequence[str] | None,
    since: str | None,
    until: str | None,
    errors: Sequence[str] | None = None,
) -> JobFilter:
    """Read the options of a command."""
    pairs: list[tuple[str, str]] = []
    for each in data or ():
        path, equals, text = each.partition("=")
        if not path or not equals:
            raise InvalidOption(f"--data wants PATH=VALUE such as user.id=7, got {each!r}")
        pairs.append((path, text))
    first, last = moment("--since", since), moment("--until", until)
    return JobFilter(names=names or (), data=pairs, errors=errors or (), since=first, until=last)


def moment(option: str, text: str | None) -> datetime | None:
    """An instant: a date and time, or how long ago."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(UTC) - timedelta(seconds=seconds(parse_duration(text)))
        except InvalidOption:
            raise InvalidOption(
                f"{option} wants a time such as 2026-11-16T09:00 or 90m, got {text!r}"
            ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


async def pick(
    queue: Queue, states: Sequence[State], wanted: JobFilter, *, count: int, look: int, oldest: bool
) -> tuple[list[tuple[State, Job]], bool]:
    """Jobs that are wanted, with their states, and whether every job was looked at."""
    found: list[tuple[State, Job]] = []
    complete = True
    for state in states:
        offset = 0
        while len(found) < count:
            page = await queue.get_jobs(state, offset=offset, limit=_PAGE, newest_first=not oldest)
            for job in page:
                if wanted.fits(job):
                    found.append((state, job))
            offset += _PAGE
            if len(page) < _PAGE:
                break
            if offset >= look:
                complete = False
                break
    return found[:count], complete

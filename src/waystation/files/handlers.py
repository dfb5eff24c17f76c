"""What runs for which file: functions by pattern or ending."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from waystation.core.errors import InvalidOption, NoHandler
from waystation.core.options import of_kind
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.runtime.handlers.calls import is_cancelled as is_cancelled
from waystation.core.telemetry.traces import Traces, carrier_from_ids
from waystation.files.directory.globs import Globs, path_in
from waystation.files.fetch.unmatched import Handles
from waystation.files.job import Job

FileHandler: TypeAlias = Callable[[Job], Any]
"""Takes the job; `async def` runs on the loop, plain `def` in a thread.

A plain one that takes long asks `is_cancelled()` now and then, because no thread can be stopped.
"""

F = TypeVar("F", bound=FileHandler)

EVERY_FILE = frozenset({"**", "**/*"})
"""Patterns that every file matches."""


class Rule(msgspec.Struct, frozen=True):
    """One function and the files that it is for."""

    patterns: Globs
    function: FileHandler
    process: bool
    texts: tuple[str, ...]
    """The patterns as they are written."""


class Handlers:
    """A table of functions; the first rule that fits a file counts."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def handler(self, *patterns: str, process: bool = False) -> Callable[[F], F]:
        """Let a function handle the files that match: `**/*.pdf`, or `.pdf` for short."""
        if not patterns:
            raise InvalidOption("a handler must say for which files it is, such as '**/*'")
        for pattern in patterns:
            of_kind("a pattern", pattern, str)
        texts = tuple(_as_glob(pattern) for pattern in patterns)
        globs = Globs(texts)

        def register(function: F) -> F:
            self.rules.append(Rule(globs, function, process, texts))
            return function

        return register

    def running(
        self, *, concurrency: int, traces: Traces, queue_of: Callable[[Job], str]
    ) -> "RunningHandlers":
        """The same table, ready to run."""
        return RunningHandlers(self.rules, concurrency, traces, queue_of)


class RunningHandlers(Handler[Job]):
    """Finds the function for a job and runs it, in a span that continues the job's trace."""

    def __init__(
        self, rules: list[Rule], concurrency: int, traces: Traces, queue_of: Callable[[Job], str]
    ) -> None:
        super().__init__(self._traced if traces.enabled else self._run)
        self._traces = traces
        self._queue_of = queue_of
        patterns = [text for rule in rules for text in rule.texts]
        is_for_all = bool(EVERY_FILE & set(patterns))
        self.handles = Handles(patterns, None if is_for_all else self._is_wanted)
        """What there are handlers for."""
        self._rules = [
            (
                rule.patterns,
                handler_of(rule.function, concurrency=concurrency, process=rule.process),
            )
            for rule in rules
        ]

    async def _run(self, job: Job) -> Any:
        path = path_in(job)
        for patterns, handler in self._rules:
            if path in patterns:
                return await handler.run(job)
        raise NoHandler(f"no handler is for files like {job.path.suffix or job.path.name!r}")

    def _is_wanted(self, job: Job) -> bool:
        path = path_in(job)
        return any(path in patterns for patterns, _ in self._rules)

    async def _traced(self, job: Job) -> Any:
        carrier = carrier_from_ids(job.trace_id, job.span_id)
        with self._traces.span_for(self._queue_of(job), job.id, carrier=carrier):
            return await self._run(job)

    async def close(self) -> None:
        """Let go of threads and processes."""
        for _, handler in self._rules:
            await handler.close()


def _as_glob(pattern: str) -> str:
    is_ending = pattern.startswith(".") and not set(pattern) & set("/*?[{")
    return f"**/*{pattern}" if is_ending else pattern


registered = Handlers()
"""The table that `@files.handler(...)` writes into."""

handler = registered.handler

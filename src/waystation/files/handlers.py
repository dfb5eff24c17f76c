"""Handlers: functions by the pattern or ending of the files that they process."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from waystation.core.errors import InvalidOption, NoHandler
from waystation.core.options import of_kind
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.runtime.handlers.calls import is_cancelled as is_cancelled
from waystation.core.telemetry.traces import Traces, carrier_from_ids
from waystation.files.directory.globs import Globs, path_in
from waystation.files.fetch import HandledFiles
from waystation.files.job import Job

FileHandler: TypeAlias = Callable[[Job], Any]
"""A function that takes the job: `async def` runs on the event loop, plain `def` in a thread.

A long plain function should check `is_cancelled()` now and then, because no thread can be stopped.
"""

F = TypeVar("F", bound=FileHandler)

EVERY_FILE = frozenset({"**", "**/*"})
"""Patterns that every file matches."""


class Rule(msgspec.Struct, frozen=True):
    """One function and the files that it processes."""

    patterns: Globs
    function: FileHandler
    process: bool
    texts: tuple[str, ...]
    """The patterns as they were written."""


class Handlers:
    """A table of handlers; the first whose pattern matches a file processes it."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def handler(self, *patterns: str, process: bool = False) -> Callable[[F], F]:
        """Register a function for the files that match: `**/*.pdf`, or `.pdf` for short.

        With `process` it runs in a process of its own.
        """
        if not patterns:
            raise InvalidOption("a handler needs a pattern for its files, such as '**/*', got none")
        for pattern in patterns:
            of_kind("a pattern", pattern, str)
        texts = tuple(_as_glob(pattern) for pattern in patterns)
        globs = Globs(texts)

        def register(function: F) -> F:
            self.rules.append(Rule(globs, function, process, texts))
            return function

        return register


def handlers_of(handlers: "Handlers | FileHandler", *, process: bool = False) -> Handlers:
    """A table of at least one handler; a function becomes the handler of every file."""
    if not isinstance(handlers, Handlers):
        if not callable(handlers):  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidOption(f"handlers must be a Handlers or a function, got {handlers!r}")
        table = Handlers()
        table.handler("**/*", process=process)(handlers)
        return table
    if process:
        raise InvalidOption("process is for one function; a Handlers has it for each handler")
    if not handlers.rules:
        raise InvalidOption("a worker needs a handler, such as @files.handler('**/*'), got none")
    return handlers


class RunningHandlers(Handler[Job]):
    """Runs the handler for a job, in a span that continues the job's trace."""

    def __init__(
        self,
        handlers: Handlers,
        *,
        traces: Traces,
        queue_of: Callable[[Job], str],
    ) -> None:
        super().__init__(self._traced if traces.enabled else self._run)
        rules = handlers.rules
        self._traces = traces
        self._queue_of = queue_of
        patterns = [text for rule in rules for text in rule.texts]
        is_for_all = bool(EVERY_FILE & set(patterns))
        self.handles = HandledFiles(patterns, None if is_for_all else self._is_wanted)
        """The files that there are handlers for."""
        self._rules = [
            (
                rule.patterns,
                handler_of(rule.function, process=rule.process),
            )
            for rule in rules
        ]

    async def _run(self, job: Job) -> Any:
        path = path_in(job)
        for patterns, handler in self._rules:
            if path in patterns:
                return await handler.run(job)
        raise NoHandler(f"there is no handler for {job.path.suffix or job.path.name!r} files")

    def _is_wanted(self, job: Job) -> bool:
        path = path_in(job)
        return any(path in patterns for patterns, _ in self._rules)

    async def _traced(self, job: Job) -> Any:
        carrier = carrier_from_ids(job.trace_id, job.span_id)
        with self._traces.span_for(self._queue_of(job), job.id, carrier=carrier):
            return await self._run(job)

    async def close(self) -> None:
        """Stop the threads and processes."""
        for _, handler in self._rules:
            await handler.close()


def _as_glob(pattern: str) -> str:
    is_ending = pattern.startswith(".") and not set(pattern) & set("/*?[{")
    return f"**/*{pattern}" if is_ending else pattern


registered = Handlers()
"""The handlers of `@files.handler(...)`: those that `waystation files` runs.

A program passes them on itself, `Worker(files.registered)`, or keeps a `Handlers` of its own.
"""

handler = registered.handler

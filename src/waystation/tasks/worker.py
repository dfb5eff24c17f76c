"""The worker of tasks: finds the task of each job and calls its function."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from waystation.bullmq import (
    Job,
    JobHandler,
    Listener,
    Store,
    Worker,
    WorkerKeywords,
    WorkerOptions,
)
from waystation.core.errors import InvalidOption
from waystation.core.line.background import Presence, WorkerRuntime
from waystation.tasks.dispatch import Dispatcher
from waystation.tasks.task import Task

if TYPE_CHECKING:
    from waystation.tasks.tasks import Tasks


class TaskWorker(Worker):
    """Runs the tasks of one queue; a `Worker` in everything else."""

    def __init__(
        self,
        tasks: "Tasks",
        queue: str,
        url: str | Store | None = None,
        *,
        options: WorkerOptions | None = None,
        listener: Listener[Job] | None = None,
        **given: Unpack[WorkerKeywords],
    ) -> None:
        named = {task.name: task for task in tasks if task.queue == queue}
        self._dispatcher = Dispatcher(tasks, self._checked(queue, named, options, given))
        super().__init__(
            queue,
            cast(JobHandler, self._dispatcher),
            url,
            prefix=tasks.prefix,
            options=options,
            listener=listener,
            payloads=tasks.payloads,
            **given,
        )

    def _runtime_at(self, store: Store) -> WorkerRuntime[Job]:
        runtime = super()._runtime_at(store)
        stop = runtime.worker.stop
        runtime.presence = _Open(self._dispatcher, store, runtime.presence, stop)
        return runtime

    def _checked(
        self,
        queue: str,
        named: Mapping[str, Task[..., Any]],
        options: WorkerOptions | None,
        given: WorkerKeywords,
    ) -> Mapping[str, Task[..., Any]]:
        if not named:
            raise InvalidOption(f"no task is declared for the queue {queue}")
        if given.get("process", options is not None and options.process):
            raise InvalidOption(
                "a worker of tasks takes no process: declare it, @tasks.task(process=True)"
            )
        if given.get("batch", options.batch if options else 0):
            raise InvalidOption("a worker of tasks takes no batch: a task is called for each job")
        return named


class _Open:
    """The worker's presence, with what its tasks depend on opened before and closed after it."""

    def __init__(
        self, dispatcher: Dispatcher, store: Store, presence: Presence, stop: Callable[[], None]
    ) -> None:
        self._stop = stop
        self._dispatcher = dispatcher
        self._store = store
        self._presence = presence

    async def open(self) -> None:
        # A worker whose dependencies have failed ends with their error.
        await self._dispatcher.open(self._store, self._stop)
        await self._presence.open()

    async def close(self) -> None:
        try:
            await self._presence.close()
        finally:
            await self._dispatcher.leave(self._store)

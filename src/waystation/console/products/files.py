"""The queue of files in the console."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, ClassVar, cast

from waystation.console.actions.kinds import Act
from waystation.console.names import has_files
from waystation.console.products.queue import ConsoleQueue, Plan, moments_of, require_no_until
from waystation.console.products.views import (
    SHORT,
    Failure,
    JobDetail,
    JobView,
    Levels,
    WorkerView,
    measured,
    short,
)
from waystation.console.why import Answer, of_files
from waystation.core.errors import InvalidOption
from waystation.core.store.connection import Store
from waystation.files import DeadLetter, Job, Layout, Queue

STATES = ("waiting", "active", "delayed", "unmatched", "completed", "failed")
_PAGE = 500


class FilesQueue(ConsoleQueue):
    """A queue of files."""

    product: ClassVar[str] = "files"
    states: ClassVar[tuple[str, ...]] = STATES
    waiting: ClassVar[tuple[str, ...]] = ("waiting",)
    failed: ClassVar[str] = "failed"
    actions: ClassVar[tuple[str, ...]] = ("retry", "retry-all")
    states_of: ClassVar[Mapping[str, tuple[str, ...]]] = {"retry": ("failed",)}

    def __init__(self, store: Store, layout: Layout) -> None:
        self._queue = Queue(store, layout=layout)
        self._keys = self._queue.keys
        super().__init__(store, self._queue, name=layout.prefix, stream=self._keys.events)

    async def exists(self) -> bool:
        """Whether anybody has used it."""
        return await has_files(self._store, self._keys.layout)

    async def levels(self) -> Levels:
        """Counts and the age of the oldest file."""
        counts: dict[str, int] = {**await self._queue.counts()}
        oldest = await self._oldest() if counts["waiting"] else None
        return Levels(counts=counts, oldest_at=oldest)

    async def _oldest(self) -> datetime | None:
        found = await self._queue.get_jobs("waiting", limit=1)
        return found[0].created_at if found else None

    async def about(self) -> dict[str, Any]:
        """How many files each list holds."""
        return {"lists": await self._queue.lengths()}

    async def jobs(
        self, state: str, *, offset: int, limit: int, newest_first: bool, most: int = SHORT
    ) -> list[JobView]:
        """A page of the files in a state."""
        if state == "failed":
            letters = await self._queue.dead_letters.list(offset, limit)
            return [_letter(each) for each in letters]
        found = await self._queue.get_jobs(
            cast(Any, state), offset=offset, limit=limit, newest_first=newest_first
        )
        return [view_of(job, state, most=most) for job in found]

    async def job(self, id: str) -> JobDetail | None:
        """Everything about one file; None when there is none."""
        job = await self._queue.get_job(id)
        if job is None:
            return None
        state = await self._queue.state(id) or "unknown"
        view = view_of(job, state)
        letter = next((each for each in await self._some_letters() if each.id == id), None)
        if letter:
            view.error, view.finished_at = str(letter.error) or letter.reason, letter.failed_at
        return JobDetail(
            job=view,
            product=self.product,
            queue=self.name,
            data={"path": job.filepath, "size": job.size, "priority": job.priority},
            timeline=await moments_of(self._store, self.stream, id),
            facts={"reason": letter.reason, "worker": letter.worker} if letter else {},
            actions=["retry"] if state == "failed" else [],
        )

    async def _some_letters(self) -> Sequence[Any]:
        return await self._queue.dead_letters.list(0, 1000)

    async def workers(self) -> list[WorkerView]:
        """The workers of the queue."""
        return [
            WorkerView(
                name=each.name,
                product=self.product,
                queues=[self.name],
                alive=each.alive,
                seen_at=each.seen_at,
                active=each.active,
                facts={"patterns": list(each.patterns)},
            )
            for each in await self._queue.workers()
        ]

    async def failures(self, *, offset: int, limit: int) -> list[Failure]:
        """Files that failed for good."""
        return [
            Failure(job=_letter(each), name=each.reason, reason=str(each.error) or each.reason)
            for each in await self._queue.dead_letters.list(offset, limit)
        ]

    async def retry(self, ids: Sequence[str]) -> int:
        """Run failed files again; returns how many."""
        return await self._queue.retry(*ids)

    async def change(
        self, action: str, jobs: Sequence[JobView], *, reason: str = "", by: str = ""
    ) -> int:
        """Run failed files again; returns how many."""
        return await self._queue.retry(*(job.id for job in jobs))

    async def why(self, id: str | None = None) -> Answer | None:
        """Why a job, or the queue itself, is where it is; None when nothing is known of it."""
        layout = self._keys.layout
        if id is None:
            return await of_files.every(self._store, layout=layout)
        return await of_files.file(self._store, id, layout=layout)

    async def memory(self) -> tuple[int, int]:
        """About how many bytes the queue takes, and how many files it has."""
        keys = self._keys
        places = (*keys.lanes, keys.completed, keys.dead_letter, keys.events, keys.seen)
        count = sum((await self._queue.counts()).values())
        return await measured(self._store, places, [], 0), count

    async def plan(self, action: str, asked: Act, *, by: str = "") -> Plan:
        """What an action would concern, and the step that takes it."""
        letters = self._queue.dead_letters
        match action:
            case "retry":
                there = await self._dead({*asked.ids})
                return Plan(len(there), lambda: letters.retry(*there))
            case "retry-all":
                require_no_until(asked)
                return Plan(await letters.count(), letters.retry_all)
            case _:
                raise InvalidOption(f"files has no action {action!r}")

    async def _dead(self, ids: set[str]) -> list[str]:
        """Those of these files that are dead letters."""
        found, offset = list[str](), 0
        while page := await self._queue.dead_letters.list(offset, _PAGE):
            found += [letter.id for letter in page if letter.id in ids]
            offset += len(page)
        return found


def view_of(job: Job, state: str, *, most: int = SHORT) -> JobView:
    """A file as a list shows it."""
    return JobView(
        id=job.id,
        name=PurePosixPath(job.filepath).name,
        state=state,
        created_at=job.created_at,
        attempts=max(0, job.attempt - 1),
        data=short(job.filepath, most),
    )


def _letter(letter: DeadLetter) -> JobView:
    unreadable = JobView(id=letter.id, name="unreadable", state="failed")
    view = view_of(letter.job, "failed") if letter.job else unreadable
    view.finished_at, view.worker = letter.failed_at, letter.worker or None
    view.error = short(str(letter.error) or letter.reason)
    return view

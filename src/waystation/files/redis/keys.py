"""The keys of the files queue."""

from collections.abc import Iterator
from functools import cached_property

from waystation.core.store.keyspace import Hash, Keyspace, List, Set, SortedSet, Stream, String
from waystation.files.options import Layout


class FileKeys(Keyspace, root="<prefix>"):
    """The keys of one queue of files; the names shown are defaults, a `Layout` sets others."""

    queue = List("<priority>_priority", "jobs of one priority; the oldest at the right end")
    scheduled = SortedSet(
        "sched:<prefix>:<priority>_priority", "retries by the instant they are due"
    )
    processing = List("worker:<worker>:processing", "jobs that a worker holds, byte for byte")
    heartbeat = String(
        "processing:worker:<worker>",
        "a worker's heartbeat and the patterns of its handlers",
        ttl="heartbeat_ttl",
    )
    workers = Set("workers", "every worker that may hold jobs")
    completed = List("completed", "completed jobs, the newest at the left end; capped")
    dead_letter = List("dead_letter", "jobs that failed for good; the newest at the left end")
    dead_letter_meta = Hash("dead_letter:meta", "why each of them failed, by job")
    rate_limit = Hash("rate_limit:producer", "the token bucket of all producers", ttl="until full")
    seen = Set("seen", "digests of files added lately", ttl="twice producer.remember")
    seen_before = Set("seen:before", "digests of the time before", ttl="producer.remember")
    orphans = String("orphans", "lock of the search for lists of unregistered workers", ttl="30 s")
    unmatched = Stream(
        "unmatched", "files that their worker had no handler for, until one that has takes them"
    )
    paused = Set("paused", "queues that workers take nothing from")
    wake = List("wake", "idle workers block on it; one entry when there is work")
    events = Stream("events", "what happened to which file")
    history = String("history", "there while a history keeps what files were", ttl="26 h")

    def __init__(self, layout: Layout | None = None, *, worker: str = "") -> None:
        layout = layout or Layout()
        super().__init__("files", prefix=layout.prefix, worker=worker)
        self.layout = layout
        # Attributes hide the declarations, so that a key costs one look-up.
        self.__dict__.update(
            processing=layout.processing_list_pattern.replace("%s", worker),
            heartbeat=layout.heartbeat_key_pattern.replace("%s", worker),
            completed=layout.completed_list,
            dead_letter=layout.dead_letter_list,
            dead_letter_meta=f"{layout.dead_letter_list}:meta",
            rate_limit=layout.rate_limit_key,
        )

    def known(self) -> Iterator[str]:
        """Every key that is known without its parts being given."""
        yield from super().known()
        yield from self.queues

    def of(self, worker: str) -> "FileKeys":
        """The same keys for one worker."""
        return FileKeys(self.layout, worker=worker)

    @cached_property
    def queues(self) -> tuple[str, ...]:
        """The queues, the most urgent first."""
        return tuple(self.layout.queues[priority] for priority in self.layout.priorities)

    @cached_property
    def lists(self) -> frozenset[str]:
        """Every list that belongs to no worker."""
        return frozenset((*self.queues, self.completed, self.dead_letter, self.wake))

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        """Each queue and its retries, the most urgent first."""
        return tuple(
            key for queue in self.queues for key in (queue, f"{self.prefix}:sched:{queue}")
        )

    def lane_of(self, origin: str | None, priority: str) -> int:
        """The number, from 1, of the queue that a job belongs in; the last when it names none."""
        if origin in self.queues:
            return self.queues.index(origin) + 1
        if priority in self.layout.priorities:
            return self.layout.priorities.index(priority) + 1
        return len(self.queues)

"""Where the files line keeps everything."""

from functools import cached_property

from waystation.core.store.keyspace import Hash, Keyspace, List, Set, SortedSet, Stream, String
from waystation.files.options import Layout


class FileKeys(Keyspace, root="<prefix>"):
    """The keys of one line of files; the names shown are the defaults, and most may be set."""

    queue = List("<priority>_priority", "jobs of one priority; the oldest at the right end")
    scheduled = SortedSet(
        "sched:<prefix>:<priority>_priority", "jobs that wait to be tried again, by when it is due"
    )
    processing = List("worker:<worker>:processing", "what a worker holds, byte for byte")
    heartbeat = String("processing:worker:<worker>", "when a worker was alive", ttl="heartbeat_ttl")
    workers = Set("workers", "every worker that may hold something")
    completed = List("completed", "what ended well, the newest at the left end; capped")
    dead_letter = List("dead_letter", "what is set aside; the newest at the left end")
    dead_letter_meta = Hash("dead_letter:meta", "why it was set aside, by job")
    rate_limit = Hash("rate_limit:producer", "the producers' shared allowance", ttl="until full")
    seen = Set("seen", "files put in line of late, as digests", ttl="twice producer.remember")
    seen_before = Set("seen:before", "those of the time before", ttl="producer.remember")
    orphans = String(
        "orphans", "held by whoever looks for lists of workers that nobody registered", ttl="30 s"
    )
    handover = Stream(
        "handover", "files that a worker had no handler for, until one that has takes them"
    )
    wake = List("wake", "what idle workers block on: one entry when there is work")
    events = Stream("events", "what happened to which file")

    def __init__(self, layout: Layout | None = None, *, worker: str = "") -> None:
        layout = layout or Layout()
        super().__init__("files", prefix=layout.namespace, worker=worker)
        self.layout = layout
        # What the settings name hides the declaration, so that using it costs one look-up.
        self.__dict__.update(
            processing=layout.processing_list_pattern.replace("%s", worker),
            heartbeat=layout.heartbeat_key_pattern.replace("%s", worker),
            completed=layout.completed_list,
            dead_letter=layout.dead_letter_list,
            dead_letter_meta=f"{layout.dead_letter_list}:meta",
            rate_limit=layout.rate_limit_key,
        )

    def of(self, worker: str) -> "FileKeys":
        """The same line as one worker sees it."""
        return FileKeys(self.layout, worker=worker)

    @cached_property
    def queues(self) -> tuple[str, ...]:
        """The queues, the most urgent first."""
        return tuple(self.layout.queues[priority] for priority in self.layout.priorities)

    @cached_property
    def lists(self) -> frozenset[str]:
        """Every list of the line that is no worker's."""
        return frozenset((*self.queues, self.completed, self.dead_letter, self.wake))

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        """Each queue and what waits to get into it, the most urgent first."""
        return tuple(
            key for queue in self.queues for key in (queue, f"{self.prefix}:sched:{queue}")
        )

    def lane_of(self, origin: str | None, priority: str) -> int:
        """The number, from 1, of the queue that a job belongs in; the last when none is named."""
        if origin in self.queues:
            return self.queues.index(origin) + 1
        if priority in self.layout.priorities:
            return self.layout.priorities.index(priority) + 1
        return len(self.queues)

"""The keys of a queue: those of BridgeMQ's data model, and those of our index."""

from waystation.core.errors import InvalidOption
from waystation.core.options import of_kind
from waystation.core.store.keyspace import Hash, Keyspace, List, Set, SortedSet, Stream, String
from waystation.core.store.leader import OfficeKeys

NAMESPACE = "bridge"

_RESERVED = frozenset({"active", "heartbeat"})
"""What a worker cannot be called, because the registry's own keys are."""


class RoutingKeys(Keyspace, root="<name>"):
    """The keys of one namespace."""

    script_args = ("namespace",)

    worker = String("workers:<worker>", "who a worker is and what it offers, as JSON")
    heartbeat = String("workers:heartbeat:<worker>", "when a worker was last heard", ttl="30 s")
    registered = Set("workers:active", "ids of the workers that have announced themselves")

    data = String("jobs:data:<job>", "the job as JSON; removed when it is completed")
    status = String("jobs:status:<job>", "waiting, active, completed, failed, delayed, cron, dead")
    result = String("jobs:result:<job>", "how the last attempt ended, as JSON", ttl="24 h")
    lock = String("jobs:lock:<job>", "the id of the worker that holds it", ttl="lock duration")
    progress = String("jobs:progress:<job>", "how far its handler is, as JSON", ttl="24 h")
    idempotency = String("jobs:idempotency:<key>", "the job that stands for a key", ttl="24 h")

    waiting = List(
        "jobs:waiting", "ids ready to run: the high lane first, each lane first in first"
    )
    active = Set("jobs:active", "ids some worker holds")
    delayed = SortedSet("jobs:delayed", "ids by the millisecond they may run")
    cron = SortedSet("jobs:cron", "ids of schedules by the millisecond of their next slot")
    deadletter = List("jobs:deadletter", "ids that failed for good; the newest at the left")

    meta = Hash("jobs:deadletter:meta", "why each of those is there, as JSON")
    deadletter_cap = String("jobs:deadletter:cap", "the most that list may hold; 10000 without")
    claims = Hash("jobs:claims", "token, counted, turn, since, worker and type of each active id")
    leases = SortedSet("jobs:leases", "active ids by the millisecond their lease is over")
    stopping = Hash(
        "jobs:stopping", "cancelled jobs whose handler takes a place under a limit until it ends"
    )
    stopped = Stream("jobs:stopped", "jobs that were cancelled while they ran, for their workers")
    routes = Hash("jobs:routes", "lane and signature of each job that has not ended")
    stalls = Hash("jobs:stalls", "how many workers fell silent while they held a job")
    held = Hash(
        "jobs:held", "how many others a job waits for, its delay after that, and its number"
    )
    awaited = Set("jobs:awaited", "ids that other jobs wait for")
    dependents = Set("jobs:dependents:<job>", "numbers and ids of the jobs that wait for this one")
    ended = List("jobs:ended", "jobs that have ended, while those that waited for them go on")
    released = Set("jobs:ended:<number>", "those that waited for one of these and go on next")
    fired = Hash(
        "jobs:cron:fired", "of each schedule the last slot seen, and the last that made a job"
    )
    wake = Stream("jobs:wake", "types and signatures that there is new work of, for idle workers")

    places = SortedSet("index:places", "waiting ids by their place in the list")
    heads = SortedSet("index:heads", "signatures that have waiting jobs, by the first one's turn")
    signatures = SortedSet("index:signatures", "signatures in the order they were first seen")
    ids = SortedSet("index:ids:<signature>", "waiting ids of one signature by their turn")
    serves = SortedSet("index:serves:<profile>", "signatures that a profile can serve", ttl="1 h")
    serial = String("index:serial", "the last turn that was given")
    unmoved = String(
        "index:unmoved", "never written; a script that names it waits while its slot moves"
    )

    limits = Hash("ratelimit:config", "limits of each type, as JSON")
    concurrent = String("ratelimit:concurrent:<type>", "running jobs of a type that has a limit")
    minute = String("ratelimit:minute:<type>", "jobs of a type started this minute", ttl="60 s")
    paused = Set("queues:paused", "types that are not handed out")
    terms = String("scheduler:terms", "how many schedulers have led so far")
    events = Stream("events:stream", "what happened to which job")
    history = String(
        "events:history", "there while a history keeps what jobs were that are removed", ttl="26 h"
    )
    events_cap = String("events:cap", "about how many events are kept; 10000 without")

    def __init__(self, namespace: str = NAMESPACE) -> None:
        super().__init__(namespace)

    @property
    def namespace(self) -> str:
        """What every key starts with."""
        return self.name

    @property
    def guards(self) -> list[str]:
        """What our own calls of BridgeMQ's scripts name besides the keys that it gives them."""
        return [self.unmoved]

    @property
    def data_prefix(self) -> str:
        """What the keys of all jobs' data start with; BridgeMQ passes it as a key."""
        return f"{self.name}:jobs:data:"

    def of(self, job_id: str, *, type: str = "") -> "RoutingKeys":
        """The same keys with those of one job, and of its type, filled in."""
        return self.within(RoutingKeys, job=job_id, type=type)

    def of_type(self, type: str) -> "RoutingKeys":
        """The same keys with those of one type filled in."""
        return self.within(RoutingKeys, type=type)

    def worker_at(self, server: str) -> "RoutingKeys":
        """The same keys with those of one worker filled in."""
        return self.within(RoutingKeys, worker=server)


class SchedulerKeys(OfficeKeys, root="<name>"):
    """Who does the upkeep of a namespace."""

    leader = String("scheduler:lock", "the scheduler that leads", ttl="30 s")
    terms = String("scheduler:terms", "how many schedulers have led so far")


def checked_server(server: str) -> str:
    """A worker's id, or why it cannot be one."""
    if not server or server in _RESERVED:
        reserved = ", ".join(sorted(_RESERVED))
        raise InvalidOption(f"a server must be a name other than {reserved}, got {server!r}")
    if ":" in server or '"' in server or not server.isprintable() or " " in server:
        raise InvalidOption(
            f"a server must not hold colons, quotes, spaces or control characters, got {server!r}"
        )
    return server


def checked_type(type: str) -> str:
    """A job's type; InvalidOption when it cannot be one."""
    of_kind("a job's type", type, str)
    if not type or not type.isprintable() or " " in type:
        raise InvalidOption(f"a job's type must be text without spaces, got {type!r}")
    return type

"""The places of a job: the lists, sorted sets and the stream that hold jobs, by state."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from waystation.core.clock import SERVER_TIME
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.store import faults
from waystation.core.store.commands import ask
from waystation.core.store.script import Client
from waystation.files import job as jobs
from waystation.files.job import Job
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys

State: TypeAlias = Literal["delayed", "waiting", "unmatched", "active", "completed", "failed"]
"""Where a job is: `delayed` waits for its retry, `unmatched` for a worker with a handler for it,
`failed` is a dead letter."""

STATES: tuple[State, ...] = get_args(State)
_PAGE = 500
_KEYS_A_STEP = 1000
_LENGTHS = {"list": "LLEN", "zset": "ZCARD", "stream": "XLEN"}


class Place(NamedTuple):
    """One key that holds jobs."""

    state: State
    key: str
    type: Literal["list", "zset", "stream"] = "list"
    worker: str = ""
    """Whoever holds the jobs in it."""


class Spot(NamedTuple):
    """One job, where it is."""

    place: Place
    job: Job
    raw: bytes
    entry: str
    """The id of its entry, in a stream."""


async def places(
    redis: Any, keys: FileKeys, *states: str, priority: str | None = None
) -> list[Place]:
    """The keys of these states, or of all, the most urgent priority first."""
    if unknown := [state for state in states if state not in STATES]:
        raise InvalidOption(f"a state must be one of {', '.join(STATES)}, got {unknown[0]!r}")
    lanes = range(len(keys.queues))
    if priority is not None:
        lanes = [require_priority(keys, priority) - 1]
    found: list[Place] = []
    for state in STATES:
        if states and state not in states:
            continue
        match state:
            case "delayed":
                found += [Place(state, keys.lanes[2 * lane + 1], "zset") for lane in lanes]
            case "waiting":
                found += [Place(state, keys.queues[lane]) for lane in lanes]
            case "unmatched":
                found.append(Place(state, keys.unmatched, "stream"))
            case "active":
                found += [
                    Place(state, keys.of(name).processing, worker=name)
                    for name in await workers(redis, keys)
                ]
            case "completed":
                found.append(Place(state, keys.completed))
            case "failed":
                found.append(Place(state, keys.dead_letter))
    return found


def require_priority(keys: FileKeys, priority: str) -> int:
    """The number, from 1, of a priority; an unknown one is refused."""
    known = keys.layout.priorities
    if priority not in known:
        raise InvalidOption(f"priority must be one of {', '.join(known)}, got {priority!r}")
    return known.index(priority) + 1


async def length(redis: Any, place: Place) -> int:
    """The number of jobs in one place."""
    return await ask(redis, _LENGTHS[place.type], place.key)


async def lengths(redis: Any, places: Sequence[Place]) -> list[int]:
    """The number of jobs in each place, at one instant.

    Asked for one by one, a job that moves meanwhile would be counted in no place.
    """
    with faults.translated():
        async with redis.pipeline(transaction=True) as pipe:
            for place in places:
                pipe.execute_command(_LENGTHS[place.type], place.key)
            return await pipe.execute()


async def page(
    redis: Any, place: Place, offset: int, count: int, *, newest_first: bool = False
) -> list[bytes]:
    """Some payloads of one place, the oldest first; retries by the instant they are due."""
    last = offset + count - 1
    with faults.translated():
        match place.type:
            case "list" if newest_first:
                return await redis.lrange(place.key, offset, last)
            case "list":
                return (await redis.lrange(place.key, -last - 1, -offset - 1))[::-1]
            case "zset":
                return await redis.zrange(place.key, offset, last, desc=newest_first)
            case "stream":
                found: list[bytes] = []
                async with aclosing(_stream(redis, place.key, newest_first)) as payloads:
                    async for _, raw in payloads:
                        found.append(raw)
                        if len(found) > last:
                            break
                return found[offset:]


async def find(redis: Any, keys: FileKeys, id: str, *states: str) -> Spot | None:
    """A job by its id; every place is read, because Redis knows jobs by their bytes only."""
    # Most payloads are of other jobs, and need not be decoded to see that.
    needle = id.encode() if id.isascii() and id.isalnum() else b""
    for place in await places(redis, keys, *states):
        async for entry, raw in _each(redis, place):
            if needle in raw and (job := read(raw)) and job.id == id:
                return Spot(place, job, raw, entry)
    return None


async def remove(client: Client, keys: FileKeys, spot: Spot, events_cap: int) -> bool:
    """Remove a job from where it was found; False when it is not there any more."""
    job, place = spot.job, spot.place
    # Another producer may have put it into a queue that is not the one of its priority.
    lane = (
        keys.lanes.index(place.key) // 2 + 1
        if place.key in keys.lanes
        else keys.lane_of(job.origin_queue, job.priority)
    )
    (was_there,) = await scripts.remove(
        client,
        keys.of(place.worker),
        now=SERVER_TIME,
        events_cap=events_cap,
        jobs=[
            place.state,
            spot.raw,
            job.id,
            lane,
            job.attempt,
            spot.entry,
        ],
    )
    return bool(was_there)


def read(raw: bytes) -> Job | None:
    """The job, or None for bytes that are none."""
    try:
        return jobs.read(raw)
    except Malformed:
        return None


async def _each(redis: Any, place: Place) -> AsyncGenerator[tuple[str, bytes]]:
    if place.type == "stream":
        async for each in _stream(redis, place.key):
            yield each
        return
    offset = 0
    while raws := await page(redis, place, offset, _PAGE):
        for raw in raws:
            yield "", raw
        offset += len(raws)


async def _stream(
    redis: Any, key: str, newest_first: bool = False
) -> AsyncGenerator[tuple[str, bytes]]:
    """The entries and payloads of a stream, a bounded number in each call."""
    start, stop = ("+", "-") if newest_first else ("-", "+")
    command = "XREVRANGE" if newest_first else "XRANGE"
    while True:
        entries: list[Any] = await ask(redis, command, key, start, stop, "COUNT", _PAGE)
        for entry, fields in entries:
            yield entry.decode(), fields.get(b"job", b"")
        if len(entries) < _PAGE:
            return
        start = f"({entries[-1][0].decode()}"


async def workers(redis: Any, keys: FileKeys) -> list[str]:
    """The names of the registered workers."""
    names = await ask(redis, "SMEMBERS", keys.workers)
    return sorted(name.decode(errors="replace") for name in names)


async def orphans_everywhere(client: Client, keys: FileKeys) -> AsyncGenerator[str]:
    """Every worker that has a list, registered or not; scans all keys."""
    cursor = None
    while cursor != 0:
        cursor, workers = await look_on(client, keys, cursor or 0)
        for worker in workers:
            yield worker


async def look_on(client: Client, keys: FileKeys, cursor: int) -> tuple[int, list[str]]:
    """Workers that have a list, among the next keys of a scan, and where it goes on."""
    before, _, after = keys.layout.processing_list_pattern.partition("%s")
    pattern = f"{_escaped(before)}*{_escaped(after)}"
    found: list[str] = []
    cursor, page = await _scan(client, keys, cursor, pattern)
    for key in page:
        # A key that is no text has no name that a worker of ours could have.
        name = key.decode(errors="replace")
        if "\ufffd" not in name and name not in keys.lists:
            found.append(name.removeprefix(before).removesuffix(after))
    return cursor, found


async def _scan(
    client: Client, keys: FileKeys, cursor: int, pattern: str
) -> tuple[int, list[bytes]]:
    # On a cluster all keys of a line lie on one node, and only that one is asked.
    node_of = getattr(client, "get_node_from_key", None)
    options = {"target_nodes": node_of(keys.workers)} if node_of else {}
    with faults.translated():
        answer = await cast(Any, client).execute_command(
            "SCAN", cursor, "MATCH", pattern, "COUNT", _KEYS_A_STEP, "TYPE", "list", **options
        )
    following, page = answer
    if isinstance(following, Mapping):
        (following,) = cast(Mapping[Any, Any], following).values()
    return int(following), page


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in text)

"""Redrive: a canary, then waves under a cap, and a stop when jobs fail again.

A plan says which jobs of the history are added again, and which cannot be. Every job is added by
one script together with its key, so a driver that was killed and starts again adds nothing twice;
and its id follows from its key, so the driver knows what became of each. The keys stay as long as
the redrive is remembered: any two starts of one name add each job once.
"""

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.bullmq.redis.scripts import retry_job
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.events import Product
from waystation.core.store import faults
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare
from waystation.pipeline.payloads.rules import Sealer
from waystation.pipeline.products.bullmq import BullmqEncoder
from waystation.pipeline.sources.batch_writer import BatchWriter, batch_keys
from waystation.pipeline.sources.store import Store
from waystation.pipeline.tables import Form

_DIGITS = 16
"""Digits that tell the jobs of one redrive apart."""
_NOT_AGAIN = (
    "jobId",
    "delay",
    "timestamp",
    "parent",
    "repeat",
    "repeatJobKey",
    "prevMillis",
    "de",
    "deduplication",
    "debounce",
)
"""Options that belong to the first life of a job."""
VISIBLE = {"removeOnFail": False, "removeOnComplete": {"age": 86_400}}
"""Options by which the driver sees how a job ended, whatever the workers remove."""


class Planned(msgspec.Struct, frozen=True):
    """A job that will be added again."""

    queue: str
    job_id: str
    """Its id in the history."""
    id: str
    """Its id in the queue: the same however often the redrive is started."""
    name: str
    data: str
    options: str
    priority: int

    @property
    def key(self) -> str:
        """Its key in the batch, by which it is added once."""
        return self.id


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a redrive."""

    name: str
    jobs: Sequence[Planned]
    impossible: Mapping[str, int]
    """Jobs that cannot be added again, by reason."""


def name_of(selection: Selection, to: str = "") -> str:
    """The name of a redrive that was given none: the same for the same selection.

    Whatever times it selects: 24 hours ago is another instant at every start.
    """
    timeless = msgspec.structs.replace(selection, since=None, until=None)
    raw = msgspec.json.encode([timeless, to])
    return hashlib.sha256(raw).hexdigest()[:12]


def plan(
    engine: Engine,
    selection: Selection,
    *,
    name: str,
    sealer: Sealer,
    declared: Sequence[str] = (),
    most: int | None = None,
) -> Plan:
    """Look up the jobs of a selection, the oldest first; failed ones unless it names a state."""
    if selection.is_empty:
        raise InvalidInput("wanted an option that chooses jobs, got none")
    if not name or not name.replace("-", "").isalnum() or len(name) > 40:
        raise InvalidOption(f"name must be up to 40 letters, digits and hyphens, got {name!r}")
    chosen = selection if selection.state else msgspec.structs.replace(selection, state="failed")
    prepare(engine, chosen)
    found = engine.ask(jobs_sql(chosen, declared))
    jobs: list[Planned] = []
    impossible: Counter[str] = Counter()
    own = re.compile(f"redrive-{name}-[0-9a-f]{{{_DIGITS}}}")
    for values in reversed(found.rows):
        row = dict(zip(found.names, values, strict=True))
        if own.fullmatch(row["job_id"]):
            # What this redrive has added is no reason to add it again.
            continue
        planned = _planned(row, name, sealer)
        if isinstance(planned, str):
            impossible[planned] += 1
        elif most is None or len(jobs) < most:
            jobs.append(planned)
    return Plan(name=name, jobs=jobs, impossible=dict(impossible))


def sandboxed(plan: Plan, prefixes: Prefixes, to: str = "") -> Plan:
    """The same jobs for a trial: each is tried once, and stays when it has ended.

    In the sandbox queues have their own names, whatever prefix they are under.
    """
    names = {each: _own_name(to or each, prefixes) for each in {job.queue for job in plan.jobs}}
    jobs = [_tried_once(each, names[each.queue]) for each in plan.jobs]
    return msgspec.structs.replace(plan, jobs=jobs)


def _own_name(queue: str, prefixes: Prefixes) -> str:
    place = prefixes.place_of(queue)
    return place[1] if place else queue


def _tried_once(job: Planned, queue: str) -> Planned:
    given = msgspec.json.decode(job.options, type=dict[str, Any])
    options = msgspec.json.encode({**given, "removeOnComplete": False, "attempts": 1}).decode()
    return msgspec.structs.replace(job, queue=queue, options=options)


def _planned(row: Mapping[str, Any], name: str, sealer: Sealer) -> Planned | str:
    if row["product"] != Product.BULLMQ.value:
        return f"jobs of {row['product']} are not redriven from the history"
    if row["data"] is None:
        return f"no data: {row['left_out'] or 'nothing was kept'}"
    if row["form"] == Form.CHANGED:
        return "a rule has changed its data, name or options"
    job_name, data, options = row["name"] or "unnamed", row["data"], row["options"] or "{}"
    try:
        if row["form"] == Form.ENCRYPTED:
            data, options = sealer.opened(data), sealer.opened(options)
            job_name = sealer.opened_text(job_name)
        given = msgspec.json.decode(options, type=dict[str, Any])
    except InvalidInput as error:
        return str(error)
    except msgspec.MsgspecError:
        return "its options are no JSON"
    except RecursionError:
        return "its data has too many levels"
    kept = {key: value for key, value in given.items() if key not in _NOT_AGAIN}
    seen = VISIBLE if kept.get("removeOnComplete") is not False else {"removeOnFail": False}
    return Planned(
        queue=row["queue"],
        job_id=row["job_id"],
        id=f"redrive-{name}-{_digest(row)}",
        name=job_name,
        data=data,
        options=msgspec.json.encode({**kept, **seen}).decode(),
        priority=row["priority"] or 0,
    )


def _digest(row: Mapping[str, Any]) -> str:
    added = row["added_at"] and int(row["added_at"].timestamp() * 1000)
    raw = msgspec.json.encode([row["queue"], row["job_id"], added])
    return hashlib.sha256(raw).hexdigest()[:_DIGITS]


KEEP_MS = 7 * 86_400_000
"""Milliseconds that a redrive is remembered after it last added a job."""
DEFAULT = Prefixes()
CHUNK = 200
"""Jobs that are added or looked at in one round trip."""


class RedriveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How carefully jobs are added."""

    canary: int = 10
    """Jobs that are added first; the others follow when all of these have ended well."""
    cap: int = 1000
    """Most added jobs that have not ended."""
    tolerate: int = 0
    """Jobs that may fail again before it stops."""
    patience: float = 600.0
    """Seconds to wait for a job to end before it gives up; the next start goes on."""
    to: str = ""
    """Queue to add to; empty for the jobs' own."""
    poll: float = 0.5
    """Seconds between two looks at the queues."""

    def __post_init__(self) -> None:
        for name, least in (("canary", 0), ("cap", 1), ("tolerate", 0)):
            if getattr(self, name) < least:
                raise InvalidOption(f"{name} must be at least {least}, got {getattr(self, name)}")


class Outcome(NamedTuple):
    """What has become of a redrive."""

    added: int
    """Jobs that were added, by this start and by earlier ones."""
    completed: int
    failed: int
    gone: int
    """Added jobs that somebody has removed: nobody knows how they ended."""
    open: int
    """Added jobs that have not ended."""
    left: int
    """Jobs that were not added."""
    stopped: str = ""
    """Why it stopped before its end."""
    reasons: Sequence[str] = ()
    """Error messages of a few jobs that failed again."""


class _Encoder(BullmqEncoder):
    """Encodes a planned job with its old options."""

    def job(self, keys: QueueKeys, row: Mapping[str, Any]) -> Sequence[str | bytes]:
        """Name, data, options, and the options that the script itself reads."""
        wants = {"id": row["id"], **({"priority": row["priority"]} if row["priority"] else {})}
        return row["name"], row["data"], row["options"], msgspec.json.encode(wants)


class Redrive:
    """One redrive: adds the jobs of a plan and watches them."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        options: RedriveOptions,
        *,
        prefixes: Prefixes = DEFAULT,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._plan = plan
        self._options = options
        self._keys = {each: prefixes.required(each) for each in set(map(self._queue, plan.jobs))}
        self._tell = tell
        self._states: dict[str, str] = {}
        """Ids that were added: '' while open, else completed, failed or gone."""
        self._again: set[str] = set()
        """Ids that had failed when this start began, and are to be retried."""
        self._reasons: list[str] = []

    def run(self) -> Outcome:
        """Add the jobs; returns when all of them have ended, or when it has to stop."""
        self._recall()
        # What ended before this start says nothing of what its jobs will meet.
        jobs = [each for each in self._plan.jobs if not self._states.get(each.id)]
        canary = jobs[: self._options.canary]
        if canary:
            self._tell(f"canary: {len(canary)} jobs")
            self._add([each for each in canary if each.id not in self._states])
            # Judged when all of it has ended: the first to end are the fast ones, not the typical.
            if not self._wait(canary):
                return self._outcome("the canary did not end in time; start again to go on")
            if self._failed > self._options.tolerate:
                return self._outcome(f"{self._failed} of the canary failed again")
            if gone := sum(self._states[each.id] == "gone" for each in canary):
                return self._outcome(f"{gone} of the canary were removed before they were judged")
        return self._release([each for each in jobs if each.id not in self._states])

    def _release(self, jobs: list[Planned]) -> Outcome:
        last_change = time.monotonic()
        while jobs or self._open:
            before = len(self._open), len(jobs)
            self._look()
            if self._failed > self._options.tolerate:
                return self._outcome(f"{self._failed} jobs failed again")
            room = max(0, self._options.cap - len(self._open))
            wave, jobs = jobs[:room], jobs[room:]
            self._add(wave)
            if (len(self._open), len(jobs)) != before:
                last_change = time.monotonic()
                self._tell(f"{len(self._states):,} added, {len(self._open):,} open")
            elif time.monotonic() - last_change > self._options.patience:
                return self._outcome("no job ended in time; start again to go on")
            if not wave:
                time.sleep(self._options.poll)
        return self._outcome()

    def _recall(self) -> None:
        """Find out what earlier starts have added; what had failed again is retried."""
        with faults.translated():
            for queue, jobs in self._by_queue(self._plan.jobs):
                done = batch_keys(*self._place(queue), self._plan.name).done
                client: Any = self._client(queue)
                for some in _chunks(jobs):
                    known = client.smismember(done, [each.key for each in some])
                    for job, was_added in zip(some, known, strict=True):
                        if was_added:
                            self._states[job.id] = ""
        if self._states:
            self._tell(f"{len(self._states):,} jobs were added by an earlier start")
        self._look()
        self._again = {id for id, state in self._states.items() if state == "failed"}
        if self._again:
            self._tell(f"{len(self._again):,} of them failed again, and are retried")
        for id in self._again:
            del self._states[id]
        self._reasons.clear()

    def _retry(self, jobs: Sequence[Planned]) -> None:
        """Let jobs run once more that had failed when this start began."""
        for job in jobs:
            keys = self._keys[self._queue(job)]
            retry_job.call_sync(
                self._client(self._queue(job)),
                keys,
                id=job.id,
                state="failed",
                lifo=0,
                forget=["atm"],
            )
            self._again.remove(job.id)
            self._states[job.id] = ""

    def _add(self, jobs: Sequence[Planned]) -> None:
        new = [each for each in jobs if each.id not in self._again]
        self._retry([each for each in jobs if each.id in self._again])
        for queue, mine in self._by_queue(new):
            rows = [{"key": each.key, **msgspec.structs.asdict(each)} for each in mine]
            added = self._writer(queue).add(self._client(queue), rows, chunk=CHUNK)
            if added.rows != len(rows):
                raise InvalidInput(
                    f"the redrive {self._plan.name} is closed in {queue}, which has taken "
                    f"{added.rows} of {len(rows)} jobs: --as NAME starts another"
                )
            self._states |= dict.fromkeys((each.id for each in mine), "")

    def _wait(self, jobs: Sequence[Planned]) -> bool:
        """Wait until these jobs have ended; False when that takes too long."""
        until = time.monotonic() + self._options.patience
        while any(self._states.get(each.id) == "" for each in jobs):
            if time.monotonic() > until:
                return False
            time.sleep(self._options.poll)
            self._look()
        return True

    def _look(self) -> None:
        """Look up what has become of the open jobs."""
        unfinished = self._open
        with faults.translated():
            for queue, jobs in self._by_queue([e for e in self._plan.jobs if e.id in unfinished]):
                keys = self._keys[queue]
                client: Any = self._client(queue)
                for some in _chunks(jobs):
                    asking = client.pipeline(transaction=False)
                    for each in some:
                        asking.zscore(keys.failed, each.id)
                        asking.zscore(keys.completed, each.id)
                        asking.hget(f"{keys.base}{each.id}", "failedReason")
                        asking.exists(f"{keys.base}{each.id}")
                    replies = asking.execute()
                    for job, facts in zip(some, _chunks(replies, 4), strict=True):
                        self._judge(job, *facts)

    def _judge(
        self, job: Planned, failed: float | None, completed: float | None, reason: Any, there: int
    ) -> None:
        if failed is not None:
            self._states[job.id] = "failed"
            if len(self._reasons) < 5:
                self._reasons.append((reason or b"").decode("utf-8", "replace"))
        elif completed is not None:
            self._states[job.id] = "completed"
        elif not there:
            # Both ends are kept, so somebody has cleaned, drained or obliterated the queue.
            self._states[job.id] = "gone"

    @property
    def _open(self) -> set[str]:
        return {id for id, state in self._states.items() if not state}

    @property
    def _failed(self) -> int:
        return sum(state == "failed" for state in self._states.values())

    def _outcome(self, stopped: str = "") -> Outcome:
        states = [*self._states.values(), *("failed" for _ in self._again)]
        return Outcome(
            added=len(states),
            completed=states.count("completed"),
            failed=states.count("failed"),
            gone=states.count("gone"),
            open=states.count(""),
            left=len(self._plan.jobs) - len(states),
            stopped=stopped,
            reasons=tuple(dict.fromkeys(self._reasons)),
        )

    def _writer(self, queue: str) -> BatchWriter:
        return BatchWriter(_Encoder(), *self._place(queue), self._plan.name, keep_ms=KEEP_MS)

    def _by_queue(self, jobs: Sequence[Planned]) -> Iterator[tuple[str, list[Planned]]]:
        for queue, mine in groupby(sorted(jobs, key=self._queue), key=self._queue):
            yield queue, list(mine)

    def _queue(self, job: Planned) -> str:
        return self._options.to or job.queue

    def _client(self, queue: str) -> Any:
        return self._store.at(self._keys[queue].meta)

    def _place(self, queue: str) -> tuple[str, str]:
        """Name and prefix of a queue."""
        keys = self._keys[queue]
        return keys.name, keys.prefix


def _chunks(items: Sequence[Any], size: int = CHUNK) -> Iterator[Sequence[Any]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]

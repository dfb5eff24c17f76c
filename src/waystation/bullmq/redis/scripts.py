"""The scripts of bullmq, one function each: one atomic step each.

Written by `make docs` from the headers of the scripts; do not edit.
"""

from collections.abc import Sequence
from typing import Any

from waystation.bullmq.redis import replies
from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.core.store.script import Client, raw, script


@script(reply=replies.ids_or_codes)
async def add(
    redis: Client, keys: QueueKeys, *, now: str | int, jobs: Sequence[str | bytes]
) -> list[str | int]:
    """Add jobs; each is a name, data, options, and the options for this script as JSON or ''.
    Wants: id timestamp delay priority lifo parent_key parent deduplication. The reply has an id
    for each job, or a number below zero that says why it was refused, or the id and the fields
    of the job that was there before.
    """
    ...


@script(reply=replies.ids_or_codes)
async def add_flow(
    redis: Client, keys: QueueKeys, *, now: str | int = "", jobs: Sequence[str | bytes]
) -> list[str | int]:
    """Add trees of jobs, all or nothing; parents stand before their children. Each job is its
    queue's base, its name, data, options, and the options for this script as JSON (see `add`). A
    job with `has_children` waits for them; nobody else can have the id of one that `is_new`. The
    reply has an id for each job, with the fields of one that was there before; or, when nothing
    was added, a number below zero and the place of the job it is about.
    """
    ...


@script(reply=replies.id_or_code)
async def bring(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int,
    holder: str,
    message: bytes,
    name: bytes,
    data: bytes,
    opts: bytes,
    wants: bytes,
    theirs: Sequence[str],
) -> str | int:
    """Take a message from a queue of another system and add the job that was made of it: its id;
    0 when the message is gone, -1 when there is a job with that id. Nothing is moved then. The
    keys of the other system are arguments, because this runs where they share a server with
    ours.
    """
    ...


@script(reply=bool)
async def remove_deduplication(
    redis: Client, keys: QueueKeys, *, id: str, deduplication: str
) -> bool:
    """Free the deduplication id of a job, if it owns it: 1, or 0 when it does not."""
    ...


@script(reply=int)
async def take(
    redis: Client, *, holder: str, message: bytes, taken: str, keep_ms: int, theirs: Sequence[str]
) -> int:
    """Take a message from a queue of another system: 1, 2 when another bridge has taken it, 0
    when a worker of that system has. The two can be told apart for as long as `taken` is kept.
    """
    ...


@script(reply=int)
async def change_group(
    redis: Client, keys: QueueKeys, *, now: str | int = "", path: str, changes: bytes
) -> int:
    """Change what is set for a group, or for all of a kind: names to values as JSON, null to
    remove. What it held back is let in again, to be held anew when its turn comes.
    """
    ...


@script(reply=int)
async def charge(
    redis: Client, keys: QueueKeys, *, id: str, token: str, cost: float, now: str | int = ""
) -> int:
    """Say what the job that a worker holds costs in truth; what it costs more than was thought
    counts for its group from now on, what it costs less counts in its favour, but gathers no
    credit. The reply is 0, or an error code.
    """
    ...


@script(reply=replies.group_counts)
async def count_groups(
    redis: Client, keys: QueueKeys, *, now: str | int = "", most: int
) -> replies.GroupCounts:
    """How many groups have jobs that wait and how many of those are held, how many of their jobs
    wait and are active, and the same of each of the groups with the most that wait. A parent
    stands for the groups in it.
    """
    ...


@script(reply=replies.groups)
async def read_groups(
    redis: Client, keys: QueueKeys, *, now: str | int = "", paths: Sequence[str]
) -> list[replies.StoredGroup]:
    """How groups stand, by their paths: how many of their jobs wait and are active, for how long
    each is held, -1 for ever and '' when it is not, what it has spent in the window of its rate
    limit and today, and what is set for all and for it.
    """
    ...


@script(reply=int)
async def add_log(redis: Client, keys: JobKeys, *, line: bytes, keep: str | int) -> int:
    """Write a line into a job's log, which keeps the newest ones: how many there are, or -1."""
    ...


@script(reply=int)
async def cancel(
    redis: Client, keys: QueueKeys, *, now: str | int = "", id: str, reason: str, keep: str
) -> int:
    """Make a job fail that has not ended, whether it waits or runs: 1, 0 when it has ended or is
    gone, -8 when it keeps its scheduler going. A worker that holds the job has lost its lock
    then, and learns so when it renews it. A job that has done steps, or has something to undo,
    runs once more, for them to be undone, and fails then.
    """
    ...


@script(reply=int)
async def change_delay(
    redis: Client, keys: QueueKeys, *, now: str | int = "", id: str, delay: int
) -> int:
    """Delay a delayed job anew, by milliseconds from now: 0, -1 when it is gone, -3 when it is
    not delayed.
    """
    ...


@script(reply=int)
async def change_priority(
    redis: Client, keys: QueueKeys, *, id: str, priority: int, lifo: int
) -> int:
    """Give a job another priority, and its new place if it waits: 0, or -1 when it is gone."""
    ...


@script(reply=int)
async def promote(redis: Client, keys: QueueKeys, *, id: str) -> int:
    """Make a delayed job ready to run now: 0, or -3 when it is not delayed."""
    ...


@script(reply=int)
async def remove_child_dependency(redis: Client, keys: JobKeys, *, now: str | int = "") -> int:
    """Release a parent from waiting for a child; 1 when done, 0 when it did not wait, or an
    error code.
    """
    ...


@script(reply=int)
async def remove_job(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int = "",
    id: str,
    with_children: int,
    by: str,
    state: str,
    most: int,
    is_next: int,
) -> int:
    """Remove a job with all that is kept about it: 1, or 0 when a worker holds it or one of its
    children, -3 when it is not in `state` ('' for any), or -8 when it keeps its scheduler going.
    Of a tree with more than `most` jobs nothing is removed and the reply is 3, unless it is
    known by `is_next` that no worker holds any: then so many children are removed, and the reply
    is 2, for the next call to go on. Their parents are not released meanwhile.
    """
    ...


@script(reply=replies.pair)
async def remove_unprocessed_children(
    redis: Client, keys: JobKeys, *, cursor: int, now: str | int = ""
) -> tuple[int, int]:
    """Remove children that no worker holds and that have not failed, with their own; one page of
    them. The reply has the cursor of the next page, 0 at the end, and how many jobs were
    removed.
    """
    ...


@script(reply=int)
async def retry_job(
    redis: Client, keys: QueueKeys, *, id: str, state: str, lifo: int, forget: Sequence[str]
) -> int:
    """Run a finished job again: 0, -1 when it is gone, -3 when it is not in that state."""
    ...


@script(reply=int)
async def update_data(redis: Client, keys: JobKeys, *, data: bytes) -> int:
    """Give a job other data: 0, or -1 when it is gone."""
    ...


@script(reply=int)
async def update_progress(redis: Client, keys: QueueKeys, *, id: str, progress: bytes) -> int:
    """Store a job's progress and emit `progress`: 0, or -1 when it is gone."""
    ...


@script(reply=int)
async def obliterate(
    redis: Client, keys: QueueKeys, *, now: str | int = "", most: int, force: str
) -> int:
    """Delete a whole queue, so many jobs in one call: 1 when there is more, 0 when nothing is
    left, -2 when jobs are active and may not be taken from their workers.
    """
    ...


@script(reply=int)
async def pause(redis: Client, keys: QueueKeys, *, by: str, most: int) -> int:
    """Hand out nothing until the queue is resumed; what is active goes on. So many ids are set
    aside in a call; the reply is how many are left.
    """
    ...


@script(reply=int)
async def rate_limit_ttl(redis: Client, keys: QueueKeys, *, max: str | int) -> int:
    """How long the rate limit lets nothing through, in milliseconds, when so many may start."""
    ...


@script(reply=replies.texts)
async def remove_orphans(
    redis: Client, keys: QueueKeys, *, most: int, dry_run: str, ids: Sequence[str]
) -> list[str]:
    """Find jobs that no state knows of, at most so many, and delete what is kept about them; the
    reply has their ids.
    """
    ...


@script(reply=int)
async def resume(redis: Client, keys: QueueKeys, *, most: int) -> int:
    """Resume the queue, after bringing its two lists together, so many ids in a call. The reply
    is how many are left to move; the queue stays paused until there are none.
    """
    ...


@script(reply=int)
async def retry_jobs(
    redis: Client, keys: QueueKeys, *, state: str, until_ms: str | int, most: int
) -> int:
    """Make the jobs of one state wait again that got there no later than `until_ms`, the oldest
    first and at most `most`; the reply is how many there were.
    """
    ...


@script(reply=raw)
async def count_jobs(redis: Client, keys: QueueKeys, *, states: Sequence[str]) -> list[int]:
    """How many jobs are in each of the states, in the order asked for."""
    ...


@script(reply=raw)
async def count_priorities(
    redis: Client, keys: QueueKeys, *, priorities: Sequence[int]
) -> list[int]:
    """How many jobs wait with each of the priorities, in the order asked for."""
    ...


@script(reply=replies.end)
async def end_of(redis: Client, keys: QueueKeys, *, id: str) -> replies.End:
    """How a job has ended: completed and its result, failed and its reason, open, or missing."""
    ...


@script(reply=replies.extent)
async def extent(
    redis: Client, keys: QueueKeys, *, after: str = "", most: int = 20000
) -> replies.Extent:
    """Read how many events there have been, and which are kept. The reply: how many were ever
    emitted (-1 where the server does not count), how many are kept, the first id kept, the last
    id ever given ('' for none), and how many are kept behind `after`, if one is given (-1 when
    they are more than `most`, which are not counted).
    """
    ...


@script(reply=replies.texts)
async def list_ids(
    redis: Client, keys: QueueKeys, *, state: str, first: int, last: int, asc: int
) -> list[str]:
    """The ids of one state from place `first` to `last`, the newest or (`asc`) the oldest first."""
    ...


@script(reply=replies.hashes)
async def read_jobs(
    redis: Client, keys: QueueKeys, *, ids: Sequence[str]
) -> list[dict[bytes, bytes]]:
    """The fields of jobs, each a flat list that is empty when the job is gone."""
    ...


@script(reply=replies.schedulers)
async def read_schedulers(
    redis: Client, keys: QueueKeys, *, ids: Sequence[str]
) -> list[tuple[bytes, bytes | None, dict[bytes, bytes]]]:
    """What is stored of schedulers: when each runs next, the mark of one that is paused, and its
    fields.
    """
    ...


@script(reply=replies.standing)
async def standing(
    redis: Client, keys: QueueKeys, *, now: str | int = "", id: str
) -> replies.Standing:
    """Where one job stands, and what its queue allows. The reply has the time, the job's state,
    how many come before it, its fields, its lock and how long that lasts, when it is due, the
    rules of the queue (paused, concurrency, max), what its rate limit has counted and how long
    that lasts, how many jobs are active and wait, and for each group that the job waits in, its
    own first: the path, how many take a turn before it (-1 when it takes none now), how many
    take turns with it, whether it has had more than they, and how long what it has spent counts.
    In a group those come before the job that are of the same group.
    """
    ...


@script(reply=replies.word)
async def state_of(redis: Client, keys: QueueKeys, *, id: str) -> str:
    """The state a job is in."""
    ...


@script(reply=raw)
async def extend_locks(
    redis: Client, keys: QueueKeys, *, lease_ms: int, locks: Sequence[str]
) -> list[int]:
    """Renew locks by their ids and tokens; the reply has the places, from 1, of those that are
    lost.
    """
    ...


@script(reply=raw)
async def filed_before(
    redis: Client, keys: QueueKeys, *, outcomes: Sequence[str | int]
) -> list[bytes]:
    """Find which outcomes were stored by calls whose replies were lost. Each is its kind and id,
    then the attempts, pickups and stalls that its worker knew of. The reply has for each: when
    the job finished, 1 when it goes on, 0 when the outcome was not filed, and nothing when the
    job is gone.
    """
    ...


@script(reply=raw)
async def find_held(redis: Client, keys: QueueKeys, *, tokens: Sequence[str]) -> list[Any]:
    """Find the jobs that were claimed under these tokens, for a worker whose answer was lost.
    The reply has an id, a token and the fields of each.
    """
    ...


@script(reply=int)
async def leave(redis: Client, keys: QueueKeys) -> int:
    """Put back what a worker that takes no more jobs may have taken from the others: the marker
    of those that wait, and when the next delayed one is due. 1 when there are any that wait.
    """
    ...


@script(reply=int)
async def move_to_delayed(
    redis: Client, keys: QueueKeys, *, now: str | int = "", id: str, token: str, due: int
) -> int:
    """Delay the job that a worker holds until `due`; the attempt does not count. 0, or an error
    code.
    """
    ...


@script(reply=int)
async def move_to_wait(redis: Client, keys: QueueKeys, *, id: str, token: str) -> int:
    """Put the job that a worker holds back at the head of its queue; the attempt does not count.
    The reply is how long the rate limit still binds, in milliseconds, or why the job stays.
    """
    ...


@script(reply=int)
async def move_to_waiting_children(
    redis: Client,
    keys: QueueKeys,
    *,
    id: str,
    token: str,
    child: str = "",
    deadline_ms: str | int = "",
    now: str | int = "",
) -> int:
    """Leave a job that its worker holds to wait for one of its children, or for all. 0 when it
    waits now, 1 when there is nothing to wait for, below zero why not. A job with a deadline
    comes back then at the latest.
    """
    ...


@script(reply=replies.texts)
async def recover_stalled(
    redis: Client, keys: QueueKeys, *, now: str | int, interval_ms: int, max_stalled: int, most: int
) -> list[str]:
    """Put back jobs whose locks have lapsed since the last look, and suspect those active now.
    At most `most` are put back; when there are more, the next call may follow at once.
    """
    ...


@script(reply=replies.settlement)
async def settle(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int,
    token: str,
    lease_ms: int,
    want: int,
    worker: str,
    max: str | int,
    duration: str | int,
    metrics: str | int,
    outcomes: Sequence[str | bytes | int],
) -> replies.Settlement:
    """File outcomes away and claim the next jobs, in one step. Each outcome is its kind, id and
    token, then: completed result keep; failed reason stacktrace keep attempts cause; retry
    reason stacktrace delay lifo; returned nothing; limited nothing: returned, and no job is
    claimed while the limit of the queue lasts.
    """
    ...


@script(reply=replies.sweep)
async def sweep(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int = "",
    state: str,
    grace: str | int,
    most: int,
    skip: int,
    emit: str,
) -> replies.Sweep:
    """Remove jobs of one state, the oldest first: those made or ended at least `grace`
    milliseconds ago, or all when that is ''; but no job that a worker holds, nor the next one of
    a scheduler. Looks at up to `most` ids after the first `skip`; replies which it removed and
    how many it spared.
    """
    ...


@script(reply=bool)
async def advance_repeatable(
    redis: Client,
    keys: QueueKeys,
    *,
    now: int,
    repeatable: str,
    previous: int,
    slot: int,
    job: str,
    name: str,
    data: bytes,
    opts: bytes,
    delay: int,
    priority: int,
    lifo: int,
) -> bool:
    """Make the next job of one of BullMQ 5's repeatable jobs, if the job of slot `previous` is
    still the one that keeps it going. The reply is 1, or 0 when it keeps nothing going.
    """
    ...


@script(reply=replies.id_or_code)
async def advance_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int = "",
    scheduler: str,
    job: str,
    slot: str | int,
    opts: str | bytes,
    id: str | bytes,
    priority: int,
    lifo: int,
    deduplication: str,
) -> str | int:
    """Make a scheduler's next job, if `job` is still the one that keeps it going. `slot` is when
    a calendar says, '' for one that counts. The reply is the next job's id, '' when this one
    keeps nothing going or the end has come, and -10 when the slot is taken.
    """
    ...


@script(reply=int)
async def pause_scheduler(
    redis: Client, keys: QueueKeys, *, now: str | int = "", scheduler: str, by: str
) -> int:
    """Stop a scheduler from making jobs; its record stays, and its next job goes as long as that
    waits for its time. One that has begun, and sleeps or is to be tried again, stays. The reply
    is 1, 0 when it is paused already, -1 when there is none, and -3 for one of BullMQ 5's
    repeatable jobs.
    """
    ...


@script(reply=bool)
async def remove_scheduler(redis: Client, keys: QueueKeys, *, scheduler: str) -> bool:
    """Remove a scheduler, with its next job as long as that waits for its time; 1, or 0 if there
    is none. One that has begun, and sleeps or is to be tried again, stays.
    """
    ...


@script(reply=replies.id_or_code)
async def resume_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int = "",
    scheduler: str,
    slot: str | int,
    opts: str | bytes,
    id: str | bytes,
    priority: int,
    lifo: int,
    deduplication: str,
) -> str | int:
    """Let a paused scheduler make jobs again. `slot` is when a calendar says, '' for one that
    counts. The reply is the next job's id, '' when it is not paused, and below zero why not: -4
    its end has come, -10 the slot is taken.
    """
    ...


@script(reply=replies.id_or_code)
async def upsert_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int = "",
    scheduler: str,
    slot: str | int,
    every: str | int,
    offset: str | int,
    start_date: str | int,
    end_date: str | int,
    name: bytes,
    data: str | bytes,
    opts: str | bytes,
    id: str | bytes,
    priority: int,
    lifo: int,
    deduplication: str,
    fields: Sequence[str | bytes | int],
) -> str | int:
    """Make a scheduler, or change one, and its next job; one that waits for its time is
    replaced, and one that has begun goes on beside it, or alone when no other slot comes before
    the end. One that is paused stays so, and makes no job. `fields` are those of the record;
    `slot` is when a calendar says, '' for one that counts. The reply is the job's id, '' while
    it is paused, or below zero why not: -10 the slot is taken, -11 all slots are.
    """
    ...


@script(reply=int)
async def emit_part(
    redis: Client, keys: JobKeys, *, token: str, number: int, data: bytes, keep_ms: int
) -> int:
    """Append a part to the output of a job, unless an earlier attempt has: its number, or an
    error code.
    """
    ...


@script(reply=replies.stepped)
async def mark_failing(
    redis: Client, keys: JobKeys, *, token: str, reason: str, stacktrace: bytes, undos: int
) -> replies.Stepped:
    """Let a job that a worker holds only be undone from now on; the reply has 0 and the reason
    that counts, or an error code.
    """
    ...


@script(reply=int)
async def note_undos(redis: Client, keys: JobKeys, *, token: str, undos: int) -> int:
    """Remember how many functions an attempt of a job that a worker holds has given to undo it:
    the most that any has, or an error code.
    """
    ...


@script(reply=replies.stepped)
async def pause_step(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int = "",
    id: str,
    token: str,
    wait: str,
    signal: str,
    due_ms: str | int,
    wait_ms: int,
    endless: int,
    deadline_ms: str | int,
) -> replies.Stepped:
    """Let a job that a worker holds wait until it is due or signalled; it holds no worker
    meanwhile. The reply is 0 when it waits now, 1 and the signal that it takes, 2 when the wait
    is over; or an error code. A wait without an end is looked at again after `wait_ms`. The job
    comes back at its deadline at the latest, to fail then. `wait` is the name of the wait among
    those of its kind, and `signal` what it waits for, or ''.
    """
    ...


@script(reply=replies.stepped)
async def save_step(
    redis: Client, keys: QueueKeys, *, id: str, token: str, step: str, by: str, value: bytes
) -> replies.Stepped:
    """Remember what a step of a job returned, and which function it was. The reply has 0 and
    what is remembered, or an error code.
    """
    ...


@script(reply=int)
async def signal_job(
    redis: Client,
    keys: QueueKeys,
    *,
    now: str | int = "",
    id: str,
    signal: str,
    call: str,
    data: bytes,
) -> int:
    """Send a signal to a job, which waits for it or will: 1, 0 when it has ended, -1 when it is
    gone. Signals of one name are numbered as they come. The same call made again counts once.
    """
    ...


@script(reply=int)
async def wake_overdue(redis: Client, keys: QueueKeys, *, now: str | int = "", most: int) -> int:
    """Make jobs ready to run that wait for a child and have passed their deadlines: how many
    were looked at.
    """
    ...

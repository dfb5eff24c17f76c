"""The keys of a queue, under the names that BullMQ gives them."""

from functools import cached_property
from typing import Self

from waystation.core.store.keyspace import Hash, Keyspace, List, Set, SortedSet, Stream, String

PREFIX = "bull"


class QueueKeys(Keyspace, root="<prefix>:<name>"):
    """The keys of one queue.

    A script that builds names of keys, or may empty one, declares `absent`, too. While a cluster
    moves a slot, it answers "try again" to whoever names several keys of which one is not there;
    otherwise it would run the script where those are that it names, though others may be on the
    other node.
    """

    script_args = ("base",)

    id = String("id", "the last number given to a job")
    meta = Hash("meta", "events cap, version, paused, global concurrency and rate limit")
    wait = List("wait", "ids ready to run; the oldest at the right end")
    paused = List("paused", "ids that BullMQ 5 set aside while paused, until resumed")
    active = List("active", "ids some worker holds; the oldest at the right end")
    prioritized = SortedSet("prioritized", "ids by priority * 2^32 + pc; the lowest runs first")
    pc = String("pc", "the order of arrival among prioritized jobs")
    # Named as the one key that Node asks for ids and never writes, so that its `removeOrphanedJobs`
    # finds the jobs of groups in a state.
    grouped = SortedSet("de", "ids that wait in a group, by their arrival")
    groups_ready = SortedSet("groups:ready:", "groups that take turns, by their tags")
    groups_ready_in = SortedSet("groups:ready:<group>", "the same for those in a group")
    groups_past = SortedSet("groups:past:", "tags of groups that take no turns now")
    groups_past_in = SortedSet("groups:past:<group>", "the same for those in a group")
    groups_jobs = SortedSet("groups:jobs:<group>", "ids that wait in a group, in its own order")
    groups_active = Set("groups:active:<group>", "ids of a group that workers hold")
    groups_spent = String("groups:spent:<group>", "cost started in this window", ttl="the limit's")
    groups_today = String("groups:today:<group>", "cost started today", ttl="until midnight")
    groups_held = SortedSet("groups:held", "groups that are paused or at a limit, by until when")
    groups_clock = Hash("groups:clock", "the virtual time, and the last number given in groups")
    groups_sizes = SortedSet("groups:sizes", "groups by how many of their jobs wait")
    groups_settings = Hash("groups:settings", "limits, weight and pause of groups, as JSON")
    groups_freed = Hash("groups:freed", "when pauses and limits were last lifted", ttl="1 h")
    groups_marker = SortedSet("groups:marker", "what idle workers of ours block on as well")
    delayed = SortedSet("delayed", "ids by the millisecond they are due * 4096, plus a rank in it")
    waiting_children = SortedSet("waiting-children", "ids of parents by when they began to wait")
    deadlines = SortedSet("deadlines", "ids of parents that wait for a child, by their deadlines")
    completed = SortedSet("completed", "ids by the millisecond they were completed")
    failed = SortedSet("failed", "ids by the millisecond they failed for good")
    marker = SortedSet("marker", "what idle workers block on: 0 = work now, 1 = the next due time")
    events = Stream("events", "what happened to which job")
    stalled = Set("stalled", "ids that were active at the last check and not renewed since")
    stalled_check = String("stalled-check", "when somebody last looked", ttl="stalled interval")
    limiter = String("limiter", "jobs started in this window", ttl="the limit's duration")
    repeat = SortedSet("repeat", "schedulers by the millisecond of their next run")
    scheduler = Hash("repeat:<scheduler>", "how a scheduler makes its jobs")
    paused_schedulers = Hash("paused-schedulers", "schedulers that are paused, and since when")
    deduplication = String("de:<deduplication>", "the id of the job that stands for others like it")
    deduplication_next = Hash("dn:<deduplication>", "the job to make when that one has finished")
    metrics_completed = Hash("metrics:completed", "completed jobs: count, and the last minute")
    metrics_completed_data = List("metrics:completed:data", "completed in each minute, newest left")
    metrics_failed = Hash("metrics:failed", "failed jobs: count, and the last minute")
    metrics_failed_data = List("metrics:failed:data", "failed in each minute, newest left")
    absent = String(
        "waystation:absent", "never there, so that a cluster runs no script on half a slot"
    )

    def __init__(self, name: str, *, prefix: str = PREFIX) -> None:
        super().__init__(name, prefix=prefix)

    @cached_property
    def base(self) -> str:
        """What every key of the queue starts with."""
        return f"{self.prefix}:{self.name}:"

    @cached_property
    def qualified(self) -> str:
        """The queue's name as a parent's reference has it."""
        return f"{self.prefix}:{self.name}"

    def of(self, job_id: str) -> "JobKeys":
        """The keys of one job."""
        return self.within(JobKeys, id=job_id)

    @classmethod
    def at(cls, qualified: str) -> Self:
        """The keys of the queue with this qualified name."""
        prefix, _, name = qualified.rpartition(":")
        return cls(name, prefix=prefix)


class JobKeys(Keyspace, root="<prefix>:<name>:<id>"):
    """The keys of one job."""

    script_args = ("base",)
    base = QueueKeys.base

    job = Hash("", "the job: name, data, options, times, counters, result")
    lock = String("lock", "the token of whoever holds the job", ttl="lock duration")
    logs = List("logs", "lines the handler wrote; the oldest at the left")
    dependencies = Set("dependencies", "keys of children that have not finished")
    processed = Hash("processed", "results of completed children, by their keys")
    ignored = Hash("failed", "reasons of failed children that do not fail the parent")
    output = Stream("output", "what the handler has emitted", ttl="7 days after the last part")
    unsuccessful = SortedSet("unsuccessful", "keys of failed children that fail the parent")
    absent = String("waystation:absent", "never there, as the queue's own")

"""Where BullMQ keeps its jobs: the states of a queue, and the fields of a job's hash."""

from collections.abc import Mapping

STATES: Mapping[str, str] = {
    "wait": "list",
    "paused": "list",
    "active": "list",
    "prioritized": "zset",
    "delayed": "zset",
    "waiting-children": "zset",
    "completed": "zset",
    "failed": "zset",
}
"""States, and the type of the key that holds the ids of each."""

FIELDS: Mapping[str, str] = {
    "name": "name",
    "data": "data",
    "options": "opts",
    "added_ms": "timestamp",
    "delay_ms": "delay",
    "priority": "priority",
    "attempts": "atm",
    "started_ms": "processedOn",
    "ended_ms": "finishedOn",
    "worker": "pb",
    "reason": "failedReason",
    "result": "returnvalue",
}
"""Columns of a job, and the fields of its hash that they are read from."""
NUMBERS = ("added_ms", "delay_ms", "priority", "attempts", "started_ms", "ended_ms")

"""The keys of the data sources."""

from typing import NamedTuple

from waystation.core.store.keyspace import Hash, Keyspace, Set


class StreamKey(NamedTuple):
    """One stream of any product, by its whole key."""

    stream: str


class BatchKeys(Keyspace, root="<prefix>:<name>:once:<batch>"):
    """What is remembered of one batch that was added to a queue."""

    receipt = Hash("", "rows, jobs, and when it was closed", ttl="the option keep")
    done = Set(
        "keys",
        "keys that have been added",
        ttl="until the batch is closed",
    )

"""Ends of Redis streams."""

from redis import Redis
from redis.exceptions import ResponseError

from waystation.core.store import faults
from waystation.pipeline.sources.offsets import Offset


def end_of(client: Redis, stream: str) -> Offset | None:
    """The end of a stream; None when there is no such stream."""
    try:
        info = client.xinfo_stream(stream)
    except ResponseError as error:
        if "no such key" in str(error).lower():
            return None
        raise faults.to_waystation_error(error) from error
    added, last = info.get("entries-added"), info["last-generated-id"]
    last = last.decode() if isinstance(last, bytes) else last
    return Offset(last, None if added is None else int(added))

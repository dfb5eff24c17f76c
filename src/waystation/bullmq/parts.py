"""Output of a job in parts, for readers who may come late, leave and come back. Internal."""

from functools import partial
from typing import Any, NamedTuple

from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.replies import End
from waystation.core import codec
from waystation.core.errors import InvalidOption, NotFound
from waystation.core.store.commands import ask
from waystation.core.store.reconnect import reconnecting
from waystation.core.store.script import Client

START = "0"
_AT_ONCE = 100
BLOCK_S = 0.5


class Part(NamedTuple):
    """A part of a job's output."""

    id: str
    """Its place; a reader who comes back goes on after it."""
    data: Any


class Reading:
    """One reader of a job's output, and the place where it is."""

    def __init__(
        self,
        client: Client,
        hot: Client,
        keys: QueueKeys,
        job_id: str,
        after: str,
        *,
        block_s: float = BLOCK_S,
    ) -> None:
        if not after.replace("-", "", 1).isdigit():
            raise InvalidOption(f"a place is the id of a part such as 17-0, got {after!r}")
        self._client = client
        self._hot = hot
        self._keys = keys
        self._job_id = job_id
        self._after = after
        self._block_ms = max(1, int(block_s * 1000))
        self._end: End | None = None

    async def more(self) -> list[Part] | None:
        """The next parts, perhaps none yet; None when the job has ended and all were read.

        Raises `JobFailed` instead when the job has failed for good.
        """
        answer = await reconnecting(self._read)
        if answer:
            parts = [
                Part(place.decode(), codec.decode_or_text(fields[b"part"]))
                for place, fields in answer[0][1]
            ]
            self._after = parts[-1].id
            return parts
        if self._end is not None:
            self._end.result()
            return None
        # What it emitted before its end is read once more then.
        self._end = await reconnecting(partial(_end_of, self._hot, self._keys, self._job_id))
        return []

    async def _read(self) -> Any:
        block = ("BLOCK", self._block_ms) if self._end is None else ()
        output = self._keys.of(self._job_id).output
        return await ask(
            self._client, "XREAD", "COUNT", _AT_ONCE, *block, "STREAMS", output, self._after
        )


async def _end_of(client: Client, keys: QueueKeys, job_id: str) -> End | None:
    end = await scripts.end_of(client, keys, id=job_id)
    if end.state == "missing":
        raise NotFound(f"there is no job {job_id}")
    return end if end.finished else None

"""Output of a job in parts, for readers who may come late, leave and come back. Internal."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, NamedTuple

from waystation.bullmq.redis import job_scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core import codec
from waystation.core.errors import InvalidOption, NotFound
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import reconnecting
from waystation.core.store.script import Client

START = "0"
_AT_ONCE = 100
_BLOCK_S = 0.5


class Part(NamedTuple):
    """A part of a job's output."""

    id: str
    """Its place; a reader who comes back goes on after it."""
    data: Any


async def read_parts(
    store: Store, keys: QueueKeys, job_id: str, after: str
) -> AsyncGenerator[Part]:
    """Parts of a job's output after this place, until the job has ended."""
    if not after.replace("-", "", 1).isdigit():
        raise InvalidOption(f"a place is the id of a part such as 17-0, got {after!r}")
    output = keys.of(job_id).output
    async with store.clone() as own:
        client = own.blocking(_BLOCK_S)
        end: job_scripts.End | None = None
        while True:
            answer = await reconnecting(partial(_read, client, output, after, blocks=end is None))
            for place, fields in answer[0][1] if answer else ():
                after = place.decode()
                yield Part(after, codec.decode_or_text(fields[b"part"]))
            if answer:
                continue
            if end is not None:
                end.result()
                return
            # What it emitted before its end is read once more then.
            end = await reconnecting(partial(_end_of, own.hot, keys, job_id))


async def _read(client: Client, output: str, after: str, *, blocks: bool) -> Any:
    block = ("BLOCK", int(_BLOCK_S * 1000)) if blocks else ()
    with faults.translated():
        return await client.execute_command(
            "XREAD", "COUNT", _AT_ONCE, *block, "STREAMS", output, after
        )


async def _end_of(client: Client, keys: QueueKeys, job_id: str) -> job_scripts.End | None:
    end = await job_scripts.end_of(client, keys, base=keys.base, id=job_id)
    if end.state == "missing":
        raise NotFound(f"there is no job {job_id}")
    return end if end.finished else None

"""A batch of rows on its way into a queue."""

from waystation.core.store.connection import connect
from waystation.pipeline.sources.keys import BatchKeys
from waystation.pipeline.sources.scripts import add_once, close_batch


async def walk(url: str) -> None:
    """Take the paths of every script of the data sources.

    The queue's own script, which does the adding, is played with its queue.
    """
    keys = BatchKeys("mail", prefix="bull", batch="june")
    async with await connect(url) as store:
        for more in (["a", "1", "b", "2"], ["b", "2", "c", "3"], ["a", "1"]):
            await add_once(store.redis, keys, keep_ms=60_000, width=1, lead=0, more=more)
        for _ in range(2):
            await close_batch(store.redis, keys, keep_ms=60_000, rows=3, now_ms=1)
        await add_once(store.redis, keys, keep_ms=60_000, width=1, lead=0, more=["d", "4"])

"""The memory that the jobs of a queue take, from a few of them."""

import asyncio
from collections.abc import Sequence

from waystation.core.store.connection import Store


async def measured(store: Store, keys: Sequence[str], jobs: Sequence[str], count: int) -> int:
    """The bytes of these keys, and of `count` jobs like these."""
    sizes = await asyncio.gather(
        *(store.ask("MEMORY", "USAGE", key, "SAMPLES", 5) for key in (*keys, *jobs))
    )
    fixed = sum(size or 0 for size in sizes[: len(keys)])
    found = [size for size in sizes[len(keys) :] if size]
    return fixed + (sum(found) * count // len(found) if found else 0)

"""The election that all products share."""

import pytest

from waystation.core.errors import NotLeader
from waystation.core.store.connection import connect
from waystation.core.store.leader import Election, OfficeKeys


async def walk(url: str) -> None:
    """Take the paths of every shared script."""
    async with await connect(url) as store:
        first, second = (Election(store.redis, OfficeKeys("chair"), owner=name) for name in "ab")
        term = await first.acquire()
        assert term is not None
        await first.acquire()
        await second.acquire()
        await first.renew(term)
        await first.resign(term)
        late = await second.acquire()
        assert late is not None
        with pytest.raises(NotLeader):
            await first.renew(term)
        await second.resign(late)

"""Clients of a store for code that waits: opened when first needed, closed by whoever opened it."""

from collections.abc import Callable
from typing import Any, Self

from waystation.core.errors import InvalidOption
from waystation.core.forks import Lock
from waystation.core.store import faults
from waystation.core.store.client import place_of
from waystation.core.store.connection.blocking import BlockingStore, connect_blocking
from waystation.core.store.connection.store import StoreOptions


def open_store(url: str | None = None, options: StoreOptions | None = None) -> BlockingStore:
    """Reach a store that many queues may share; whoever opens it closes it, or uses `with`.

    Without a URL it is the one that the settings name, as for `waystation.bullmq.open_store`.
    """
    return connect_blocking(*place_of(url, options))


class BlockingClient:
    """Something that works on a store, from any thread and after any fork."""

    def __init__(self, url: "str | BlockingStore | None" = None) -> None:
        if not isinstance(url, str | BlockingStore | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"a store is given by its URL, or by sync.open_store, got {url!r}")
        self._given = url if isinstance(url, BlockingStore) else None
        self._url = url if isinstance(url, str) else None
        self._opened: BlockingStore | None = None
        self._closed = False
        self._opening = Lock()

    def close(self) -> None:
        """Close the connections for good."""
        self._closed = True
        opened, self._opened = self._opened, None
        if opened is not None and self._given is None:
            opened.shut()

    def __enter__(self) -> Self:
        self._store()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self) -> BlockingStore:
        if self._closed or (self._opened is not None and self._opened.is_shut):
            raise faults.closed(f"this {type(self).__name__} has been closed")
        if self._opened is not None:
            return self._opened
        with self._opening:
            if self._opened is None:
                self._opened = self._given or connect_blocking(*place_of(self._url))
            return self._opened


class Part:
    """One of the parts of a queue. Internal."""

    def __init__(self, do: Callable[..., Any], name: str) -> None:
        """Internal: a queue makes it."""
        self._queue_does = do
        self._name = name

    def _do(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._queue_does(f"{self._name}.{method}", *args, **kwargs)

"""The store for code that waits: the same steps, over clients that block.

What is written for an event loop runs here as it is. Its client answers before it gives the loop
back, so nothing of it outlives the call, and a process that forks takes no loop along.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Self, TypeVar, cast

from redis import Redis as BlockingRedis
from redis.asyncio import Redis

from waystation.core.errors import StoreUnreachable
from waystation.core.forks import MadeOnce
from waystation.core.store import embedded, faults
from waystation.core.store.connection.address import Address, parse
from waystation.core.store.connection.clients import BLOCKING, Clients
from waystation.core.store.connection.store import Durability, Store, StoreOptions, confirmed
from waystation.core.store.script import Client, SyncClient

T = TypeVar("T")


def connect_blocking(url: str | None, options: StoreOptions) -> "BlockingStore":
    """Open the store at this URL, or this directory's own server when there is none."""
    share = None if url is not None else embedded.shared()
    store = BlockingStore(parse(url or cast("embedded.Shared", share).url), options, share=share)
    try:
        with faults.translated():
            store.client.execute_command("PING")
    except StoreUnreachable as error:
        store.shut()
        raise faults.no_answer(store.address, error) from error
    except BaseException:
        store.shut()
        raise
    return store


class BlockingStore(Store):
    """A store whose clients answer before they give the loop back; any thread may use it."""

    def __init__(
        self, address: Address, options: StoreOptions, *, share: "embedded.Shared | None" = None
    ) -> None:
        """Internal: `open_store` makes it."""
        super().__init__(address, options, share=share)
        self.is_shut = False
        """Whether it was closed; its clients would open connections anew."""
        self._makers = Clients(
            BLOCKING,
            address,
            client_name=options.client_name,
            connect_timeout=options.connect_timeout,
        )

    @MadeOnce
    def client(self) -> BlockingRedis:
        """Internal: the client that blocks."""
        return self._makers.make(self.options.call_timeout, self.options.max_connections)

    @MadeOnce
    def durable_client(self) -> SyncClient:
        """Internal: the same for additions, which may have to wait for a replica."""
        if self.options.durability == Durability.PRIMARY:
            return self.client
        patience = self.options.call_timeout + self.options.replica_timeout
        client = self._makers.make(patience, self.options.max_connections)
        return _Replicated(client, timeout=self.options.replica_timeout)

    @MadeOnce
    def redis(self) -> Redis:
        """The client for everything but the hot path."""
        return cast(Redis, _Answered(self, self.client))

    @MadeOnce
    def hot(self) -> Client:
        """Internal: the same client, for there is no other call to share a connection with."""
        return cast(Client, self.redis)

    @MadeOnce
    def durable(self) -> Client:
        """Internal: the client for additions."""
        return cast(Client, _Answered(self, self.durable_client))

    def shut(self) -> None:
        """Close every connection, and give up the share in an embedded server."""
        self.is_shut, opened = True, self.__dict__
        if isinstance(durable := opened.get("durable_client"), _Replicated):
            durable.close()
        if "client" in opened:
            self.client.close()
        for watcher in self._makers.watchers:
            watcher.close()
        if self._share:
            self._share.close()

    async def close(self) -> None:
        """Internal: as `shut`, for code that was written for an event loop."""
        self.shut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()


class _Answered:
    """A client that blocks, in the clothes of one for a loop."""

    def __init__(self, store: BlockingStore, client: Any) -> None:
        self._store = store
        self._client = client

    async def execute_command(self, *args: Any) -> Any:
        if self._store.is_shut:
            raise faults.closed("the store has been closed")
        return self._client.execute_command(*args)

    async def scan_iter(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        for key in self._client.scan_iter(*args, **kwargs):
            yield key

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call


class _Replicated:
    """A client whose calls are answered when a replica has what they wrote."""

    def __init__(self, client: BlockingRedis, *, timeout: float) -> None:
        self._client = client
        self._timeout_ms = max(1, round(timeout * 1000))

    def execute_command(self, *args: Any) -> Any:
        # Both on one connection, because WAIT asks for what that connection has written.
        with self._client.pipeline(transaction=False) as pipe:
            pipe.execute_command(*args)
            pipe.execute_command("WAIT", 1, self._timeout_ms)
            answer, replicas = pipe.execute(raise_on_error=False)
        return confirmed(answer, replicas, self._timeout_ms)

    def close(self) -> None:
        self._client.close()


def finish(step: Coroutine[Any, Any, T]) -> T:
    """Run a step that never has to wait for its loop, because its client blocks."""
    try:
        step.send(None)
    except StopIteration as stop:
        return stop.value
    step.close()
    raise RuntimeError("a step that should not wait has waited")


def run(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a step on a loop of its own, which ends with it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(make)
    # Code on a loop may call what blocks, as long as it knows; only not on the same thread.
    outcome: list[T | BaseException] = []

    def aside() -> None:
        try:
            outcome.append(_run(make))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=aside, name="waystation-sync")
    thread.start()
    thread.join()
    [found] = outcome
    if isinstance(found, BaseException):
        raise found
    return found


def _run(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(make())
    finally:
        loop.close()

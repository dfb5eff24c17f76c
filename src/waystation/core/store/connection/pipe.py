"""One connection for the hot path: what is asked in one turn of the loop leaves in a few writes.

A call that finds others under way leaves at once, and those behind it in that turn together. A
lone call leaves at once and costs the loop no further turn.

redis-py does what is difficult (TLS, passwords, sentinels, the first greetings); then the pipe
takes over the open transport. Answers come in the order of the questions, so nothing is checked
out or locked per call. Nothing is ever sent twice.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError

from waystation.core.errors import StoreUnreachable
from waystation.core.store import faults

MOST_PENDING = 10_000

_CLOSE_S = 1.0

_NO_MORE = object()
_CLOSED = "the connection has been closed"
_LOST = "the store closed the connection; whether the call took effect is unknown"
_LATE = "the store did not answer in time; whether the call took effect is unknown"


class Pipe:
    """A client with one connection and many calls under way; reconnects when called again."""

    def __init__(
        self,
        connection: Callable[[], AbstractConnection],
        *,
        call_timeout: float,
        most_pending: int = MOST_PENDING,
    ) -> None:
        self._connection = connection
        self._call_timeout = call_timeout
        self._most_pending = most_pending
        self._line: _Line | None = None
        self._opening: asyncio.Task[_Line] | None = None
        self._expecting = 0
        self._closed = False

    async def execute_command(self, *args: Any) -> Any:
        """Send one command and give back its answer."""
        line = self._line
        if line is None or line.lost or line.full:
            line = await self._ready()
        return await line.call(args)

    def packed(self, *args: Any) -> "Callable[[], asyncio.Future[Any] | None]":
        """Pack one command; calling the result sends it, or gives None where it has to wait."""
        command = _packed(args)

        def send() -> "asyncio.Future[Any] | None":
            line = self._line
            return None if line is None or line.lost or line.full else line.send(command)

        return send

    async def in_a_row(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send commands behind each other on one connection; errors are among the answers."""
        line = await self._ready()
        return await asyncio.gather(*map(line.call, commands), return_exceptions=True)

    async def close(self) -> None:
        """Give up the connection; calls still under way fail."""
        self._closed = True
        if opening := self._opening:
            opening.cancel()
            await asyncio.wait([opening], timeout=_CLOSE_S)
        if self._line:
            await self._line.close()

    async def _ready(self) -> "_Line":
        line = self._line
        if line is None or line.lost:
            line = await self._open()
        if line.full:
            await line.room()
        return line

    async def _open(self) -> "_Line":
        if self._closed:
            raise faults.closed(_CLOSED)
        # Everybody who waits shares one attempt, and nobody who gives up stops it for the others.
        if self._opening is None:
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        self._expecting += 1
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and not (task and task.cancelling()):
                # Whoever closes the pipe does not mean the tasks that wait for it.
                raise faults.closed(_CLOSED) from None
            if self._expecting == 1 and self._opening is opening:
                # With nobody left to wait it would outlive the loop that is about to end; whoever
                # comes next begins anew, and does not share its end.
                opening.cancel()
                self._opening = None
            raise
        finally:
            self._expecting -= 1

    def _opened(self, opening: asyncio.Task["_Line"]) -> None:
        if self._opening is opening:
            self._opening = None
        if not opening.cancelled():
            opening.exception()

    async def _connect(self) -> "_Line":
        connection = self._connection()
        try:
            await connection.connect()
        except Exception as error:
            await _let_go(connection)
            fault = faults.to_waystation_error(faults.of_client(error))
            if isinstance(fault, StoreUnreachable):
                fault.never_sent = True
            raise fault from error
        except BaseException:
            await _let_go(connection)
            raise
        self._line = _Line(connection, self._call_timeout, self._most_pending)
        return self._line


class _Line(asyncio.Protocol):
    """One open connection and the calls that wait on it."""

    def __init__(self, connection: AbstractConnection, timeout: float, most: int) -> None:
        self.lost = False
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._most = most
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._unsent: list[bytes] = []
        self._gathering = False
        self._replies = hiredis.Reader(replyError=_error, notEnoughData=_NO_MORE)
        self._writable = asyncio.Event()
        self._writable.set()
        self._answered = asyncio.Event()
        self._gone = self._loop.create_future()
        self._alarm: asyncio.TimerHandle | None = None
        # Kept, because a writer that is collected closes its transport.
        self._writer = _taken_over(connection)
        self._transport = cast(asyncio.Transport, self._writer.transport)
        self._transport.set_protocol(self)
        # redis-py may have put the transport's reading to rest while nobody asked.
        if not self._transport.is_reading():
            self._transport.resume_reading()

    @property
    def full(self) -> bool:
        """Whether a caller has to wait before it may ask."""
        return len(self._waiting) >= self._most or not self._writable.is_set()

    async def room(self) -> None:
        """Wait until there is room for one more call."""
        while self.full and not self.lost:
            if len(self._waiting) >= self._most:
                # Not for the oldest call's own future: whoever gave that up has ended it.
                self._answered.clear()
                await self._answered.wait()
            else:
                await self._writable.wait()

    def call(self, args: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Put a command on its way; its answer comes through the future."""
        return self.send(_packed(args))

    def send(self, packed: bytes) -> asyncio.Future[Any]:
        """Put a packed command on its way."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.lost:
            answer.set_exception(StoreUnreachable(_LOST))
            return answer
        if self._gathering:
            self._unsent.append(packed)
        else:
            if self._waiting:
                self._gathering = True
                self._loop.call_soon(self._send_rest)
            self._transport.write(packed)
        self._waiting.append((answer, self._loop.time()))
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._timeout, self._check_oldest)
        return answer

    async def close(self) -> None:
        """Hang up."""
        self._transport.abort()
        await asyncio.wait([self._gone], timeout=_CLOSE_S)

    def data_received(self, data: bytes) -> None:
        """Hand each answer to whoever has waited longest."""
        try:
            self._replies.feed(data)
            while (value := self._replies.gets()) is not _NO_MORE:
                answer, _ = self._waiting.popleft()
                # Whoever was cancelled has gone, but the answer was theirs.
                if not answer.done():
                    if isinstance(value, RedisError):
                        answer.set_exception(value)
                    else:
                        answer.set_result(value)
                if isinstance(value, ReadOnlyError):
                    # This server has been demoted; the next call finds the one that leads.
                    self._transport.close()
            self._answered.set()
        except (hiredis.HiredisError, IndexError):
            self._transport.abort()

    def pause_writing(self) -> None:
        """Keep further callers waiting while the kernel's buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let callers go on."""
        self._writable.set()

    def eof_received(self) -> bool:
        """The server hangs up, and so do we."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail every call that still waits."""
        self._fail(_LOST)
        if not self._gone.done():
            self._gone.set_result(None)

    def _send_rest(self) -> None:
        self._gathering = False
        unsent, self._unsent = self._unsent, []
        if unsent and not self.lost:
            self._transport.write(b"".join(unsent))

    def _check_oldest(self) -> None:
        self._alarm = None
        if not self._waiting:
            return
        left = self._waiting[0][1] + self._timeout - self._loop.time()
        if left > 0:
            self._alarm = self._loop.call_later(left, self._check_oldest)
            return
        # Answers come in order, so whoever waits behind the oldest has none either.
        self._fail(_LATE)
        self._transport.abort()

    def _fail(self, sentence: str) -> None:
        self.lost = True
        self._writable.set()
        self._answered.set()
        if self._alarm:
            self._alarm.cancel()
        while self._waiting:
            answer, _ = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(StoreUnreachable(sentence))


async def _let_go(connection: AbstractConnection) -> None:
    # Whoever gives up half-way leaves no socket behind.
    with contextlib.suppress(Exception):
        await connection.disconnect(nowait=True)


def _packed(args: tuple[Any, ...]) -> bytes:
    return cast(bytes, hiredis.pack_command(args))


def _taken_over(connection: AbstractConnection) -> asyncio.StreamWriter:
    writer = cast(asyncio.StreamWriter, connection._writer)  # pyright: ignore[reportPrivateUsage]
    # From here on redis-py's object holds nothing that it could close.
    connection._writer = connection._reader = None  # pyright: ignore[reportPrivateUsage]
    return writer


def _error(text: str) -> RedisError:
    if text.startswith("NOSCRIPT"):
        return NoScriptError(text)
    if text.startswith("READONLY"):
        return ReadOnlyError(text)
    return ResponseError(text)

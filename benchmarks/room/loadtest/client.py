"""A few HTTP connections shared by all simulated visitors."""

import asyncio
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from waystation.core import codec
from waystation.core.errors import InvalidOption, StoreUnreachable


class Site(NamedTuple):
    """Where a room is found."""

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Read `http://host:port/api/v1/queues/name`."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or "/queues/" not in parts.path:
            raise InvalidOption(f"wanted http://host:port/api/v1/queues/name, got {url!r}")
        return cls(parts.hostname, parts.port or 80, parts.path.rstrip("/"))


ANSWERED_WITHIN_S = 30.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: dict[str, Any]


class Connection:
    """One connection that is kept open; it is made anew when the server has closed it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Put one question; StoreUnreachable when nobody answers."""
        head = {
            "Host": f"{self._site.host}:{self._site.port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
        question = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                return await self._exchange(question)
        except (OSError, asyncio.IncompleteReadError) as error:
            await self.close()
            said = str(error) or type(error).__name__
            raise StoreUnreachable(f"the room does not answer: {said}") from error

    async def _exchange(self, question: bytes) -> Answer:
        if self._streams is not None:
            try:
                return await self._put(question, *self._streams)
            except (ConnectionError, asyncio.IncompleteReadError):
                # A server may hang up on a line that was silent; every question can be put twice.
                await self.close()
        self._streams = await asyncio.open_connection(self._site.host, self._site.port)
        return await self._put(question, *self._streams)

    async def _put(
        self, question: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Answer:
        writer.write(question)
        return await _read(reader)

    async def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _read(reader: asyncio.StreamReader) -> Answer:
    status_line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    length = 0
    for line in rest:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    raw = await reader.readexactly(length)
    return Answer(int(status_line.split(" ")[1]), codec.decode(raw) if raw else {})

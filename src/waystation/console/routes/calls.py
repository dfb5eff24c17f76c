"""Endpoints of the console, declared with the role of those who may ask."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, Unpack

import msgspec

from waystation.console.context import Console
from waystation.console.products.queue import ConsoleQueue, alone
from waystation.core.errors import InvalidInput
from waystation.core.http.endpoints import Annotations, Routed, annotated
from waystation.core.http.exchange import Request, whole
from waystation.core.operators.operators import Operator

T = TypeVar("T")

ROOT = "/api/v1"
QUEUE = f"{ROOT}/queues/{{product}}/{{queue}}"


class Call(msgspec.Struct, frozen=True):
    """A request of somebody who may make it."""

    request: Request
    console: Console
    who: Operator

    @property
    def about(self) -> str | None:
        """The queue or the room that the path names."""
        return _about(self.request)

    async def queue(self) -> ConsoleQueue:
        """The queue that the path names."""
        slots = self.request.slots
        return await self.console.directory.find(slots["product"], slots["queue"])

    async def of_each_queue(self, step: Callable[[ConsoleQueue], Awaitable[list[T]]]) -> list[T]:
        """What this finds in all queues; one that cannot be read is left out."""
        await self.console.sampler.overview()
        found = list[T]()
        for queue in self.console.directory.every():
            with alone(queue.product, queue.name):
                found += await step(queue)
        return found

    async def note(self, action: str, about: str, *, after: Any) -> None:
        """Write down who did what."""
        await self.console.note(self.who, action, about, after=after)


class ConsoleRoutes:
    """Endpoints that are declared with `console_endpoint`."""

    def __init__(self, console: Console) -> None:
        self.console = console


def console_endpoint(
    asked: str, scope: str, *, anywhere: bool = False, **said: Unpack[Annotations]
) -> Callable[[Callable[..., Awaitable[Any]]], Routed]:
    """Declare that a method answers `GET /…`, for operators of this role.

    Where the path names a queue or a room, the role has to hold there; with `anywhere` it is enough
    that it holds for some queue.
    """

    async def opened(routes: ConsoleRoutes, request: Request) -> Call:
        console = routes.console
        if anywhere:
            return Call(request, console, await console.require_any(request, scope))
        return Call(request, console, await console.require(request, scope, _about(request)))

    return annotated(asked, opened, scope=scope, **said)


def _about(request: Request) -> str | None:
    slots = request.slots
    return f"{slots['product']}/{slots['queue']}" if "queue" in slots else slots.get("room")


MOST_PAGE = 500
DEEPEST = 1_000_000
PAGE: dict[str, dict[str, Any]] = {
    "offset": {"type": "integer", "minimum": 0, "maximum": DEEPEST},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_PAGE},
}
"""The parameters of a page, as the document describes them."""


def page(request: Request, *, default: int = 50) -> tuple[int, int]:
    """The offset and the limit."""
    offset = whole(request, "offset", 0, least=0, most=DEEPEST)
    return offset, whole(request, "limit", default, least=1, most=MOST_PAGE)


def word(request: Request, name: str, allowed: tuple[str, ...], default: str) -> str:
    """One of some words."""
    text = request.query.get(name, default)
    if text not in allowed:
        raise InvalidInput(f"{name} must be one of {', '.join(allowed)}, got {text[:40]!r}")
    return text


def text(request: Request, name: str, *, most: int = 200) -> str:
    """A text, at most so long."""
    given = request.query.get(name, "").strip()
    if len(given) > most:
        raise InvalidInput(f"{name} may have {most} characters, got {len(given)}")
    return given

"""Endpoints of webhooks for job events."""

from typing import Annotated

import msgspec

from waystation.console.context import Console
from waystation.console.routes.queues import ROOT
from waystation.console.webhooks import ENDED, MOST_QUEUES, SENT, Hooks, HookView, try_out, view_of
from waystation.core.http.endpoints import endpoint, stated
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.webhooks import delivery


class NewHook(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to send events, and which."""

    url: Annotated[str, stated(minLength=1, maxLength=delivery.LONGEST_URL)]
    events: Annotated[list[str], stated(maxItems=len(SENT))] = []
    """Those that tell of a job's end when none is named."""
    queues: Annotated[list[str], stated(maxItems=MOST_QUEUES)] = []
    """Such as bullmq/mail; all when none is named."""


class MadeHook(msgspec.Struct, kw_only=True):
    """A webhook, and its secret for the only time."""

    id: str
    url: str
    events: list[str]
    queues: list[str]
    secret: str


class HookList(msgspec.Struct, kw_only=True):
    """All webhooks."""

    webhooks: list[HookView]
    known_events: list[str]
    """The events that a webhook may name."""
    usual_events: list[str]
    """Those that are sent when it names none."""


class Tried(msgspec.Struct, kw_only=True):
    """What came of trying a webhook out."""

    taken: bool
    error: str


class HookRoutes:
    """Who hears what happens to jobs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._hooks = Hooks(console.store)

    @endpoint(f"GET {ROOT}/webhooks", gives={200: HookList}, scope="operator")
    async def every(self, request: Request) -> Answer:
        """List webhooks and how their deliveries go."""
        await self._console.require(request, "operator")
        found = [view_of(hook, state) for hook, state in await self._hooks.every()]
        return answer(HookList(webhooks=found, known_events=list(SENT), usual_events=list(ENDED)))

    @endpoint(f"POST {ROOT}/webhooks", takes=NewHook, gives={201: MadeHook}, scope="admin")
    async def add(self, request: Request) -> Answer:
        """Send job events to a URL; the secret of their signature is shown once."""
        who = await self._console.require(request, "admin")
        asked = await request.read(NewHook)
        url = delivery.checked(asked.url, self._console.dispatcher.sender.private)
        hook = await self._hooks.add(url, asked.events, asked.queues)
        after = {"id": hook.id, "url": hook.url, "events": hook.events, "queues": hook.queues}
        await self._console.note(who, "add-webhook", "webhooks", after=after)
        return answer(msgspec.convert(hook, MadeHook, from_attributes=True), 201)

    @endpoint(f"DELETE {ROOT}/webhooks/{{id}}", gives={204: None}, scope="admin")
    async def remove(self, request: Request) -> Answer:
        """Remove a webhook."""
        who = await self._console.require(request, "admin")
        await self._hooks.remove(request.slots["id"])
        await self._console.note(
            who, "remove-webhook", "webhooks", after={"id": request.slots["id"]}
        )
        return Answer(204)

    @endpoint(f"POST {ROOT}/webhooks/{{id}}/test", gives={200: Tried}, scope="admin")
    async def try_out(self, request: Request) -> Answer:
        """Send a test event to a webhook."""
        await self._console.require(request, "admin")
        hook, _ = await self._hooks.get(request.slots["id"])
        wrong = await try_out(self._console.dispatcher.sender, hook)
        return answer(Tried(taken=not wrong, error=wrong))

    @endpoint(f"POST {ROOT}/webhooks/{{id}}/resume", gives={200: HookView}, scope="admin")
    async def resume(self, request: Request) -> Answer:
        """Try a webhook again at once, also one that was given up, from where it was."""
        who = await self._console.require(request, "admin")
        hook, _ = await self._hooks.get(request.slots["id"])
        state = await self._hooks.resume(hook.id)
        await self._console.note(who, "resume-webhook", "webhooks", after={"id": hook.id})
        return answer(view_of(hook, state))

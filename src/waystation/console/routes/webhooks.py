"""Endpoints of webhooks for job events."""

from typing import Annotated

import msgspec

from waystation.console.context import Console
from waystation.console.routes.calls import ROOT, Call, ConsoleRoutes, console_endpoint
from waystation.console.webhooks import ENDED, MOST_QUEUES, SENT, Hooks, HookView, try_out, view_of
from waystation.core.http.endpoints import stated
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


class HookRoutes(ConsoleRoutes):
    """Who hears what happens to jobs."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._hooks = Hooks(console.store)

    @console_endpoint(f"GET {ROOT}/webhooks", "operator")
    async def every(self, call: Call) -> HookList:
        """List webhooks and how their deliveries go."""
        found = [view_of(hook, state) for hook, state in await self._hooks.every()]
        return HookList(webhooks=found, known_events=list(SENT), usual_events=list(ENDED))

    @console_endpoint(f"POST {ROOT}/webhooks", "admin", status=201)
    async def add(self, call: Call, asked: NewHook) -> MadeHook:
        """Send job events to a URL; the secret of their signature is shown once."""
        url = delivery.checked(asked.url, self.console.dispatcher.sender.private)
        hook = await self._hooks.add(url, asked.events, asked.queues)
        after = {"id": hook.id, "url": hook.url, "events": hook.events, "queues": hook.queues}
        await call.note("add-webhook", "webhooks", after=after)
        return msgspec.convert(hook, MadeHook, from_attributes=True)

    @console_endpoint(f"DELETE {ROOT}/webhooks/{{id}}", "admin")
    async def remove(self, call: Call) -> None:
        """Remove a webhook."""
        id = call.request.slots["id"]
        await self._hooks.remove(id)
        await call.note("remove-webhook", "webhooks", after={"id": id})

    @console_endpoint(f"POST {ROOT}/webhooks/{{id}}/test", "admin")
    async def try_out(self, call: Call) -> Tried:
        """Send a test event to a webhook."""
        hook, _ = await self._hooks.get(call.request.slots["id"])
        wrong = await try_out(self.console.dispatcher.sender, hook)
        return Tried(taken=not wrong, error=wrong)

    @console_endpoint(f"POST {ROOT}/webhooks/{{id}}/resume", "admin")
    async def resume(self, call: Call) -> HookView:
        """Try a webhook again at once, also one that was given up, from where it was."""
        hook, _ = await self._hooks.get(call.request.slots["id"])
        state = await self._hooks.resume(hook.id)
        await call.note("resume-webhook", "webhooks", after={"id": hook.id})
        return view_of(hook, state)

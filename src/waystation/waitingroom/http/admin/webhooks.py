"""Operator routes for webhooks."""

from waystation.core.errors import NotFound
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.webhooks import delivery
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, ROOT, AdminContext
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.webhooks.dispatcher import WebhookDispatcher
from waystation.waitingroom.http.webhooks.hooks import Webhook, Webhooks


class WebhookAdmin:
    """The webhooks of a room."""

    def __init__(self, context: AdminContext, dispatcher: WebhookDispatcher) -> None:
        self._context = context
        self._dispatcher = dispatcher

    @endpoint(
        f"GET {ROOT}/{{id}}/webhooks", gives={200: bodies.Webhooks}, fails=FAILS, scope="viewer"
    )
    async def every(self, request: Request) -> Answer:
        """List webhooks and the state of their deliveries."""
        room, _ = await self._context.allowed(request, "viewer")
        hooks = Webhooks(room)
        listed = [await _listed(hooks, each) for each in await hooks.every()]
        return answer(bodies.Webhooks(webhooks=listed))

    @endpoint(
        f"POST {ROOT}/{{id}}/webhooks",
        takes=bodies.NewWebhook,
        gives={201: bodies.MadeWebhook},
        fails=FAILS,
        scope="admin",
    )
    async def add(self, request: Request) -> Answer:
        """Add a webhook; its secret is shown once."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(bodies.NewWebhook)
        url = delivery.checked(asked.url, self._dispatcher.sender.private)
        hook = await Webhooks(room).add(url, asked.events)
        after = {"id": hook.id, "url": hook.url, "events": hook.events}
        await self._context.note(who, "add-webhook", room, before=None, after=after)
        made = bodies.MadeWebhook(id=hook.id, url=hook.url, events=hook.events, secret=hook.secret)
        return answer(made, 201)

    @endpoint(
        f"DELETE {ROOT}/{{id}}/webhooks/{{hook}}", gives={204: None}, fails=FAILS, scope="admin"
    )
    async def remove(self, request: Request) -> Answer:
        """Remove a webhook."""
        room, who = await self._context.allowed(request, "admin")
        await Webhooks(room).remove(request.slots["hook"])
        await self._context.note(
            who, "remove-webhook", room, before=request.slots["hook"], after=None
        )
        return Answer(204)

    @endpoint(
        f"POST {ROOT}/{{id}}/webhooks/{{hook}}/test",
        gives={200: bodies.Tried},
        fails=FAILS,
        scope="admin",
    )
    async def try_out(self, request: Request) -> Answer:
        """Send a test event to a webhook."""
        room, _ = await self._context.allowed(request, "admin")
        wanted = request.slots["hook"]
        hook = next((each for each in await Webhooks(room).every() if each.id == wanted), None)
        if hook is None:
            raise NotFound("there is no such webhook")
        wrong = await self._dispatcher.try_out(room, hook)
        return answer(bodies.Tried(taken=not wrong, error=wrong))


async def _listed(hooks: Webhooks, hook: Webhook) -> bodies.Webhook:
    state = await hooks.state(hook.id)
    return bodies.Webhook(
        id=hook.id,
        url=hook.url,
        events=hook.events,
        delivered=state.delivered,
        failures=state.failures,
        last_error=state.last_error,
        next_try_at=rfc3339(state.next_ms) if state.failures else None,
    )

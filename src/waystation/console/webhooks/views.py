"""Webhooks as they are shown."""

from datetime import datetime

import msgspec

from waystation.console.webhooks.hooks import Hook, State
from waystation.core.durations import instant


class FailureView(msgspec.Struct, kw_only=True):
    """A request that was not taken."""

    at: datetime
    error: str


class HookView(msgspec.Struct, kw_only=True):
    """A webhook, and how it goes."""

    id: str
    url: str
    events: list[str]
    queues: list[str]
    delivered: int
    delivered_at: datetime | None
    """When something was delivered last."""
    failures: int
    """In a row."""
    last_error: str
    next_try_at: datetime | None
    dead: bool
    """Given up after too many failures, until it is resumed."""
    recent_failures: list[FailureView]
    """The newest first; kept after one that went well."""


def view_of(hook: Hook, state: State) -> HookView:
    """A webhook, without its secret."""
    waits = state.failures and not state.dead
    return HookView(
        id=hook.id,
        url=hook.url,
        events=hook.events,
        queues=hook.queues,
        delivered=state.delivered,
        delivered_at=instant(state.delivered_ms) if state.delivered_ms else None,
        failures=state.failures,
        last_error=state.last_error,
        next_try_at=instant(state.next_ms) if waits else None,
        dead=state.dead,
        recent_failures=[
            FailureView(at=instant(each.at_ms), error=each.error) for each in state.recent
        ],
    )

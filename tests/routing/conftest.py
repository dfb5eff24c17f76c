"""A harness of the routing queue on an empty server."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from tests.routing.harness import Harness, harness_on
from tests.routing.mesh import WATCHED, Seen
from waystation.routing import hub


@pytest.fixture
async def harness(redis_url: str, no_strays: None) -> AsyncGenerator[Harness]:
    async with harness_on(redis_url) as opened:
        yield opened


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()

    def watched(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        async def asked(*places: Any, **args: Any) -> Any:
            seen.calls.append((name, args))
            return await ask(*places, **args)

        return asked

    for module, name in WATCHED:
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))

    class WatchedHub(hub.Hub):
        def add(self, worker: hub.Idle) -> None:
            super().add(worker)
            seen.idle.add(worker)

        def remove(self, worker: hub.Idle) -> None:
            super().remove(worker)
            seen.idle.discard(worker)

    monkeypatch.setattr(hub, "Hub", WatchedHub)
    return seen


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks without a reason, so that a wake-up that gets lost is never found again."""
    monkeypatch.setattr(hub, "POLL_S", 3_600.0)

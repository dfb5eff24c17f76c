"""The HTTP server of the waiting rooms, as its settings say."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from waystation.core.errors import InvalidSetting
from waystation.core.http.server import serving
from waystation.core.operators.oidc import Provider
from waystation.core.operators.oidc_settings import oidc_options
from waystation.core.runtime.loop import Loop
from waystation.core.store.connection import Store
from waystation.core.telemetry.metrics import Metrics
from waystation.waitingroom.http.app import App
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.http.webhooks import dispatcher_of
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.running import RoomMaintenance
from waystation.waitingroom.settings import HttpSettings, RoomSettings
from waystation.waitingroom.signing import KeyFile, Keyring

KEYS_EVERY_S = 5.0
"""How often a process checks whether another has changed the signing keys."""


@asynccontextmanager
async def running(
    settings: RoomSettings,
    store: Store,
    *,
    metrics: Metrics | None = None,
    metrics_page: Callable[[], Awaitable[bytes]] | None = None,
    shared: bool = False,
) -> AsyncGenerator[App]:
    """Serve requests and maintain all rooms for as long as the block runs.

    `shared` is for one of several processes behind one port; `metrics_page` gives the numbers of
    all of them.
    """
    numbers = RoomMetrics(metrics)
    rooms = Rooms(store)
    file = KeyFile(settings.keys_file)
    given = settings.keys
    keys = file.read() if given is None else Keyring.from_json(given)
    context = ServerContext.create(rooms, keys, server_options(settings), metrics=numbers)
    oidc = oidc_options(settings.oidc, "room.oidc")
    dispatcher = dispatcher_of(context)

    async def look_at_keys() -> None:
        """Take over the keys that another process has changed."""
        if given is None and (changed := await asyncio.to_thread(file.changed)):
            context.tokens.adopt(changed)

    loops = (Loop(dispatcher.carry, every_s=1.0), Loop(look_at_keys, every_s=KEYS_EVERY_S))
    async with RoomMaintenance(rooms, numbers, loops=loops) as maintenance:
        app = App(
            context,
            maintenance=maintenance,
            dispatcher=dispatcher,
            keys=file if given is None else None,
            provider=Provider(oidc, context.clock) if oidc else None,
            metrics_page=metrics_page,
        )
        try:
            async with serving(app, host=settings.host, port=settings.port, shared=shared):
                yield app
        except OSError as error:
            raise InvalidSetting(f"room.port wants a free port: {error}") from error
        finally:
            await dispatcher.close()


def server_options(settings: RoomSettings) -> ServerOptions:
    """The options of the HTTP server."""
    names = (*HttpSettings.__struct_fields__, "captcha")
    return ServerOptions(**{name: getattr(settings, name) for name in names})

"""`waystation room serve`: the HTTP server of all rooms."""

from typing import Annotated

import msgspec
import typer

from waystation.core.app import compose
from waystation.core.app.loading import loaded
from waystation.core.app.settings import StoreSettings, TelemetrySettings
from waystation.core.http import server
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.settings.load import Settings
from waystation.core.telemetry.logs import get_logger
from waystation.waitingroom import serving as composed
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.settings import RoomSettings

_log = get_logger(__name__)


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The interface to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on.", min=1, max=65_535)
    ] = None,
    room: Annotated[
        list[str] | None, typer.Option(help="A room that has to be open before anybody comes.")
    ] = None,
) -> None:
    """Serve visitors, proxies and operators, and maintain all rooms."""
    settings = loaded(context)
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    chosen = msgspec.structs.replace(settings[RoomSettings], **given)
    compose.log_to_stderr(settings[TelemetrySettings])
    server.run(_serve(settings, chosen, room or []))


async def _serve(settings: Settings, chosen: RoomSettings, names: list[str]) -> None:
    async with (
        compose.telemetry(settings[TelemetrySettings]) as seen,
        compose.store(settings[StoreSettings], wait_s=settings[StoreSettings].wait) as store,
    ):
        for name in names:
            await Rooms(store).of(name).state()
        async with composed.running(chosen, store, metrics=seen.metrics):
            seen.health.watch(store)
            _log.info("server_started", port=chosen.port, line="waitingroom")
            await until_asked_to_stop()
            _log.info("server_stopped", line="waitingroom")

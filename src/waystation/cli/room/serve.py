"""`waystation room serve`: the doors of all rooms as one process."""

from typing import Annotated

import typer

from waystation.cli import compose
from waystation.cli.loading import loaded
from waystation.cli.room import serving as composed
from waystation.cli.settings import Settings
from waystation.cli.settings.room import RoomSettings
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.telemetry.logs import get_logger
from waystation.waitingroom.http import server
from waystation.waitingroom.rooms import Rooms

_log = get_logger(__name__)


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The interface to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on.", min=1)] = None,
    room: Annotated[
        list[str] | None, typer.Option(help="A room that has to be open before anybody comes.")
    ] = None,
) -> None:
    """Answer visitors, proxies and operators, and look after all rooms."""
    settings = loaded(context).settings
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    doors = RoomSettings.model_validate({**settings.room.model_dump(), **given})
    compose.log_to_stderr(settings.telemetry)
    server.run(_serve(settings, doors, room or []))


async def _serve(settings: Settings, doors: RoomSettings, names: list[str]) -> None:
    async with (
        compose.telemetry(settings.telemetry) as seen,
        compose.store(settings, wait_s=settings.store.wait) as store,
    ):
        for name in names:
            await Rooms(store).of(name).pulse()
        async with composed.doors(doors, store, metrics=seen.metrics):
            _log.info("the doors are open", port=doors.port, line="waitingroom")
            await until_asked_to_stop()
            _log.info("the doors close", line="waitingroom")

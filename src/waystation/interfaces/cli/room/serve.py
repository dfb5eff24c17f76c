"""`waystation room serve`: the doors of all rooms as one process."""

from typing import Annotated

import typer

from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.telemetry.logs import get_logger
from waystation.interfaces import compose
from waystation.interfaces import room as composed
from waystation.interfaces.api import server
from waystation.interfaces.api.rooms import Rooms, name_of
from waystation.interfaces.cli.loading import loaded
from waystation.interfaces.cli.room.reach import note
from waystation.interfaces.settings import Settings
from waystation.interfaces.settings.room import RoomSettings
from waystation.queues.waitingroom.options import RoomOptions

_log = get_logger(__name__)


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The interface to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on.", min=1)] = None,
    room: Annotated[
        list[str] | None, typer.Option(help="Open this room if there is none of that name.")
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
        # Before the doors open, so that nobody is told that there is no such room.
        rooms = Rooms(store)
        known = await rooms.look()
        for id in (f"{{{name}}}" for name in names):
            if id not in known:
                await rooms.of(id).open(RoomOptions(name=name_of(id)))
                await note(store, "open", id)
        async with composed.doors(doors, store, metrics=seen.metrics):
            _log.info("the doors are open", port=doors.port, line="waitingroom")
            await until_asked_to_stop()
            _log.info("the doors close", line="waitingroom")

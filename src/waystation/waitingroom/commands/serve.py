"""`waystation room serve`: the HTTP server of all rooms."""

from typing import Annotated

import msgspec
import typer

from waystation.core.app import compose, fleet
from waystation.core.app.invocation import loaded
from waystation.core.app.settings import StoreSettings, TelemetrySettings
from waystation.core.http import server
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.settings.load import Settings
from waystation.core.telemetry.logs import get_logger
from waystation.waitingroom import serving as composed
from waystation.waitingroom.metrics import ALIKE
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
    workers: Annotated[
        int, typer.Option(help="Processes behind the one port, one for each core, say.", min=1)
    ] = 1,
) -> None:
    """Serve visitors, proxies and operators, and maintain all rooms.

    With --workers several processes share the port; one that dies is started again, and /metrics of
    any of them has the numbers of all.
    """
    settings = loaded(context)
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    chosen = msgspec.structs.replace(settings[RoomSettings], **given)
    compose.log_to_stderr(settings[TelemetrySettings])
    if workers > 1 and not fleet.is_member():
        server.refuse_taken(chosen.host, chosen.port)
        _print_addresses(chosen, room or [])
    fleet.supervise(workers, settings[TelemetrySettings], alike=ALIKE)
    server.run(_serve(settings, chosen, room or []))


async def _serve(settings: Settings, chosen: RoomSettings, names: list[str]) -> None:
    watched = fleet.telemetry_of_this_process(settings[TelemetrySettings])
    async with (
        compose.telemetry(watched) as seen,
        compose.store(settings[StoreSettings], wait_s=settings[StoreSettings].wait) as store,
    ):
        for name in names:
            await Rooms(store).of(name).state()
        async with (
            composed.running(
                chosen,
                store,
                metrics=seen.metrics,
                metrics_page=lambda: fleet.page_of_all(seen.metrics),
                shared=fleet.is_member(),
            ),
            fleet.membership(seen.metrics),
        ):
            seen.health.watch(store)
            if not fleet.is_member():
                _print_addresses(chosen, names)
            _log.info("server_started", port=chosen.port, product="waitingroom")
            await until_asked_to_stop()
            _log.info("server_stopped", product="waitingroom")


def _print_addresses(chosen: RoomSettings, names: list[str]) -> None:
    place = f"http://{chosen.host}:{chosen.port}"
    pages = f"{chosen.public_url.rstrip('/') or place}/wait"
    for name in dict.fromkeys(name.strip("{}") for name in names or ["ROOM"]):
        typer.echo(f"waiting page at {pages}/{name}", err=True)
    typer.echo(f"operators at {place}/operate", err=True)

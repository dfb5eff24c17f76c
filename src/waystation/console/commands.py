"""`waystation console`: the web console and its HTTP API."""

import asyncio
from typing import Annotated, Any

import msgspec
import typer

from waystation.console.serving import require_safe, running
from waystation.console.settings import ConsoleSettings, prefixes_of
from waystation.core.app import compose
from waystation.core.app.invocation import loaded
from waystation.core.app.settings import StoreSettings, TelemetrySettings
from waystation.core.clock import SystemClock
from waystation.core.errors import InvalidOption
from waystation.core.http import server
from waystation.core.operators.operators import Operators
from waystation.core.operators.roles import Role
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.settings.load import Settings
from waystation.core.telemetry.logs import get_logger
from waystation.files.settings import FilesSettings, layout
from waystation.pipeline.settings import PipelineSettings
from waystation.routing.settings import RoutingSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None, invoke_without_command=True)

_log = get_logger(__name__)


@app.callback()
def console(
    context: typer.Context,
    listen: Annotated[
        str | None, typer.Option(help="The interface and port to listen on.", metavar="HOST:PORT")
    ] = None,
    role: Annotated[
        Role | None, typer.Option(help="What somebody on this machine may do without a sign-in.")
    ] = None,
    sign_in: Annotated[
        bool, typer.Option("--sign-in", help="Ask everybody for a key or a sign-in.")
    ] = False,
) -> None:
    """Look at all queues, jobs, files and rooms in the browser, and act on them.

    Without a sign-in the console answers only this machine, and shows without changing anything
    unless --role allows more.
    """
    if context.invoked_subcommand is not None:
        return
    settings = loaded(context)
    chosen = settings[ConsoleSettings]
    given: dict[str, Any] = {**_place(listen), **({"local_role": role.value} if role else {})}
    if sign_in:
        given["sign_in"] = True
    given["prefixes"] = prefixes_of(settings)
    chosen = msgspec.structs.replace(chosen, **given)
    require_safe(chosen)
    compose.log_to_stderr(settings[TelemetrySettings])
    server.run(_serve(settings, chosen))


@app.command()
def key(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Who it is for.")],
    role: Annotated[Role, typer.Option(help="What it allows.")] = Role.OPERATOR,
    queue: Annotated[
        list[str] | None, typer.Option(help="Only this queue, such as bullmq/mail, or room.")
    ] = None,
    days: Annotated[float, typer.Option(help="Days until it expires.")] = 90,
) -> None:
    """Make a key to sign in with, or for a program; it is shown once."""
    settings = loaded(context)

    async def make() -> str:
        async with compose.store(settings[StoreSettings]) as store:
            operators = Operators(store, SystemClock())
            return await operators.issue(name, role, queues=queue, days=days)

    typer.echo(asyncio.run(make()))


async def _serve(settings: Settings, chosen: ConsoleSettings) -> None:
    async with compose.store(settings[StoreSettings], wait_s=settings[StoreSettings].wait) as store:
        namespaces = (settings[RoutingSettings].namespace,)
        layouts = (layout(settings[FilesSettings]),)
        history = str(settings[PipelineSettings].history)
        async with running(chosen, store, namespaces=namespaces, layouts=layouts, history=history):
            shows = not chosen.sign_in and chosen.local_role == "viewer"
            hint = "; it only shows, and with --role operator it acts" if shows else ""
            typer.echo(f"console at http://{chosen.host}:{chosen.port}/{hint}", err=True)
            _log.info("server_started", port=chosen.port)
            await until_asked_to_stop()
            _log.info("server_stopped")


def _place(listen: str | None) -> dict[str, str | int]:
    if listen is None:
        return {}
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise InvalidOption(f"--listen must be HOST:PORT, such as 127.0.0.1:8090, got {listen!r}")
    return {"host": host.strip("[]"), "port": int(port)}

"""`waystation demo`."""

import asyncio
from types import ModuleType
from typing import Annotated

import typer
from rich.markup import escape

from waystation.cli.demo import letters, people, printing, purchases
from waystation.cli.demo.stage import Account, Stage
from waystation.core.app import imports
from waystation.core.errors import HistoryError
from waystation.core.store import embedded
from waystation.core.telemetry import logs

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SCENES: list[ModuleType] = [purchases, printing, letters, people]
"""In the order in which they are played. Each has a TITLE, a PART of waystation, and a `run`."""


@app.command()
def demo(
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Then keep the sale open, with a console in the browser."),
    ] = False,
) -> None:
    """Watch a small ticket sale: workers are killed, and every ticket is counted.

    It starts a server of its own and touches no other. Exits with 1 if anything was lost.
    """
    # Jobs fail on purpose, by the hundred: the scenes say what became of them.
    logs.configure(level="critical")
    stage = Stage()
    try:
        balanced = asyncio.run(play(stage))
        if serve:
            asyncio.run(_open_house().serve(stage))
    except KeyboardInterrupt:
        typer.echo("\nThe show was ended early; nothing of it is left behind.", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(0 if balanced else 1)


async def play(stage: Stage) -> bool:
    """Play all scenes; whether everything is accounted for."""
    accounts: list[Account] = []
    history = _history()
    scenes = [*SCENES, *([history] if history else [])]
    stage.open("A ticket sale", f"{len(scenes)} scenes, about a minute; Ctrl-C ends it")
    with embedded.ephemeral() as server:
        if history:
            await asyncio.to_thread(history.keep_all, server.url)
        for number, scene in enumerate(scenes, 1):
            stage.open(f"{number}. {scene.TITLE}", scene.PART)
            try:
                accounts.append(await scene.run(stage, server.url))
            except HistoryError as error:
                # What the other scenes have counted is true all the same.
                stage.say(f"[red]Spark has not counted it:[/] {escape(str(error))}")
                continue
            stage.show_account(accounts[-1])
    stage.close(accounts)
    if not history:
        stage.say(
            r"With waystation\[spark] a fifth scene keeps every event of this in tables, "
            "and counts again.\n"
        )
    return len(accounts) == len(scenes) and all(account.balanced for account in accounts)


def _history() -> ModuleType | None:
    """The scene that needs Spark, if Spark is there."""
    try:
        from waystation.cli.demo import history
    except ModuleNotFoundError:
        return None
    return history


def _open_house() -> ModuleType:
    return imports.load(
        "waystation.cli.demo.open_house", extra="api", purpose="waystation demo --serve"
    )

"""`waystation room simulate`: a simulated crowd in front of a room."""

import asyncio
from collections.abc import Callable
from typing import Annotated

import typer

from waystation.core.app.progress import watching
from waystation.core.store import embedded
from waystation.core.store.connection import StoreOptions, connect
from waystation.waitingroom.simulator import Crowd, Simulation, Verdict

Progress = Callable[[int, int], None]


def simulate(
    visitors: Annotated[int, typer.Option(help="People who come.", min=100)] = 20_000,
    hours: Annotated[float, typer.Option(help="How long they keep coming.")] = 6.0,
    no_show: Annotated[float, typer.Option(help="Share of those called who stay away.")] = 0.3,
    late: Annotated[
        float, typer.Option(help="Share of those who stay away that take their turn back.")
    ] = 0.0,
    patience: Annotated[
        float, typer.Option(help="Seconds after which people give up, on average.", min=1)
    ] = 600.0,
    session: Annotated[
        float, typer.Option(help="Seconds that half of them stay inside.", min=0.001)
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same crowd.")] = 1,
) -> None:
    """Simulate a crowd, faster than real time, and check the room.

    Runs the production scripts on a server of its own. Ends with 1 when a figure is not as it
    should be.
    """
    crowd = Crowd(
        visitors=visitors,
        hours=hours,
        no_show=no_show,
        late=late,
        patience_s=patience,
        session_median_s=session,
        seed=seed,
    )
    with watching() as shown:
        shown.begin("people who have come and gone", total=visitors)

        def progress(came: int, here: int) -> None:
            shown.reach(came - here)

        verdicts = asyncio.run(_simulate(crowd, progress))
    for each in verdicts:
        mark = " " if not each.wanted else "✓" if each.holds else "✗"
        wanted = f"(wanted {each.wanted})" if each.wanted else ""
        typer.echo(f"{mark} {each.name:<52} {each.seen:<24} {wanted}".rstrip())
    if not all(each.holds for each in verdicts):
        raise typer.Exit(1)


async def _simulate(crowd: Crowd, progress: Progress) -> list[Verdict]:
    with embedded.ephemeral() as server:
        # A machine that is busy for a while must not end what took hours.
        async with await connect(server.socket_url, StoreOptions(call_timeout=300)) as store:
            return await Simulation(store, crowd, progress=progress).run()

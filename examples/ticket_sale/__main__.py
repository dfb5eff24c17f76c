"""Play every scene, then count: `python -m examples.ticket_sale`, with `--serve` keep it open."""

import asyncio
import sys

from examples.ticket_sale import (
    box_office,
    history,
    letters,
    line_outside,
    printing_rooms,
    purchases,
)
from examples.ticket_sale.account import Account
from examples.ticket_sale.scene import Scene
from examples.ticket_sale.stage import Stage
from waystation.core.telemetry import logs

SCENES: list[Scene] = [
    box_office,
    purchases,
    printing_rooms,
    letters,
    line_outside,
    history,
]
"""In the order in which they are played; a new part of waystation adds its scene here."""


async def main() -> int:
    """Play all scenes; 1 when anything was lost or counted twice, else 0."""
    stage = Stage()
    accounts: list[Account] = []
    stage.welcome(len(SCENES))
    for number, scene in enumerate(SCENES, 1):
        stage.open(f"Scene {number} of {len(SCENES)}: {scene.TITLE}", scene.PART)
        account = await scene.run(stage)
        stage.show_account(account)
        accounts.append(account)
    stage.close(accounts)
    stage.part(history.PAGE)
    if "--serve" in sys.argv[1:]:
        # Only who looks needs a web server.
        from examples.ticket_sale import open_house

        await open_house.serve(stage)
    return 0 if all(account.balanced for account in accounts) else 1


if __name__ == "__main__":
    # Jobs fail on purpose, by the hundred: the scenes and the console say what became of them.
    logs.configure(level="critical")
    try:
        sys.exit(asyncio.run(main()))
    except KeyboardInterrupt:
        sys.exit("\nThe show was ended early; nothing of it is left behind.")

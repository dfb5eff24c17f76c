"""The open house of `waystation demo --serve`: the sale goes on, in the browser, until Ctrl-C."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple

from waystation import bullmq, routing
from waystation.cli.demo.stage import Stage
from waystation.console.serving import running as console_running
from waystation.console.settings import ConsoleSettings
from waystation.core.operators.roles import Role
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.settings.section import Secret
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect
from waystation.waitingroom import RoomOptions
from waystation.waitingroom import serving as room
from waystation.waitingroom.settings import RoomSettings
from waystation.waitingroom.signing import Keyring

ROOM, CONSOLE = 8080, 8090
SALE = "sale"
QUEUE = "purchases"

_KINDS = ("stalls", "balcony", "box")
_BROKEN = 25
"""One order in so many asks for a hall that is gone, so that there is a failure to look into."""


class Address(NamedTuple):
    """Something to look at in the browser."""

    url: str
    what: str


async def serve(stage: Stage, *, room_port: int = ROOM, console_port: int = CONSOLE) -> None:
    """Keep the console, the room and the sale open until a signal comes."""
    with embedded.ephemeral() as server:
        async with opened(server.url, room_port=room_port, console_port=console_port) as addresses:
            stage.say("[bold]The house is open[/], until Ctrl-C:\n")
            for address in addresses:
                stage.say(f"{address.url:<44}  [dim]{address.what}[/]")
            await until_asked_to_stop()


@asynccontextmanager
async def opened(url: str, *, room_port: int, console_port: int) -> AsyncGenerator[list[Address]]:
    """The house as long as the block runs: a sale with its queues, a room and the console."""
    keys = Secret(Keyring.generate(random.SystemRandom()).to_json())
    async with (
        await connect(url) as store,
        room.running(RoomSettings(port=room_port, keys=keys), store) as waiting,
        console_running(ConsoleSettings(port=console_port, local_role="operator"), store),
        _sale(store),
    ):
        line = waiting.context.rooms.of(SALE)
        await line.open(RoomOptions(name="The ticket sale", max_active=3, admission_rate=0.2))
        key = await waiting.operators.issue("you", Role.ADMIN)
        yield [
            Address(
                f"http://localhost:{console_port}/", "the console: queues, jobs, failures, why"
            ),
            Address(f"http://localhost:{room_port}/wait/{SALE}", "the waiting room, as a visitor"),
            Address(f"http://localhost:{room_port}/operate/{SALE}", f"its operator; key: {key}"),
        ]


@asynccontextmanager
async def _sale(store: Store) -> AsyncGenerator[None]:
    """Purchases that come in and are settled, and printing that some of them need."""
    dice = random.Random(7)
    purchases, printing = bullmq.Queue(QUEUE, store), routing.Queue(store)

    async def buy() -> None:
        order = {"seat": dice.choice(_KINDS), "price": dice.randrange(20, 90)}
        if dice.randrange(_BROKEN) == 0:
            order["hall"] = f"old hall {dice.randrange(1, 9)}"
        await purchases.add("buy", order, attempts=2, backoff=2, remove_on_complete=500)

    async def settle(job: bullmq.Job) -> str:
        await asyncio.sleep(dice.uniform(0.05, 0.6))
        if hall := job.data.get("hall"):
            raise LookupError(f"there is no {hall} any more")
        if dice.random() < 0.06:
            raise ConnectionError("the bank does not answer")
        if job.data["seat"] == "box":
            await printing.add("print", job.data)
        return "sold"

    async def print_ticket(job: routing.Job) -> None:
        await asyncio.sleep(dice.uniform(0.2, 1.0))

    await purchases.schedulers.upsert(
        "daily-takings", bullmq.Schedule(pattern="0 23 * * *"), name="count"
    )
    buying = asyncio.create_task(Loop(buy, every_s=0.25, jitter=0.5).run())
    async with (
        bullmq.Worker(QUEUE, settle, store, name="box-office", concurrency=4, grace=2),
        routing.Worker({"print": print_ticket}, store, server="cellar", grace=2),
    ):
        try:
            yield
        finally:
            buying.cancel()
            await asyncio.gather(buying, return_exceptions=True)

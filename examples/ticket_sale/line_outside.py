"""The line outside: four lanes of people, some of whom leave, are late, or come from one office."""

from rich import box
from rich.table import Table

from benchmarks.room.simulator import Crowd, Mood, Simulation, Verdict
from examples.ticket_sale.account import Account
from examples.ticket_sale.stage import Stage
from waystation.core.clock import HandClock
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect
from waystation.waitingroom import JoinRequest, Lane, Room, RoomOptions
from waystation.waitingroom.operating import lottery
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.operating.lottery import Lottery

TITLE: str = "The line outside"
PART: str = "waystation.waitingroom: people in a fair line"

VISITORS = 2_500
EARLY_BIRDS = 200


async def run(stage: Stage) -> Account:
    """Let a crowd stand in line, faster than time, and account for everybody in it."""
    with embedded.ephemeral() as server:
        async with await connect(server.socket_url) as store:
            await _draw_lots(stage, store)
            stage.say(
                f"{VISITORS:,} people come within half an hour, more than the shop can take. "
                "Time passes as fast as it can."
            )
            crowd = Crowd(visitors=VISITORS, hours=0.5, patience_s=400, bots=0)
            with stage.progress("people came", VISITORS) as show:
                simulation = Simulation(store, crowd, progress=lambda came, _: show(came))
                verdicts = await simulation.run()
            stage.show(_table(verdicts))
            return _account(simulation, verdicts)


async def _draw_lots(stage: Stage, store: Store) -> None:
    clock = HandClock()
    room = Room("{opening}", store, clock=clock)
    await room.open(RoomOptions(newcomers_per_minute=0))
    await Control(room).schedule(clock.now_ms() + 60_000)
    commitment = await Lottery(room).announce()
    for number in range(EARLY_BIRDS):
        await room.join(JoinRequest(key=f"early {number}", secret=f"{number}"))
    await Lottery(room).draw(beacon="the weather in Helsinki")
    lottery.verify(await Lottery(room).proof(), await Lottery(room).drawn())
    stage.say(
        f"{EARLY_BIRDS} early birds draw lots: the seed behind {commitment[:12]}… was fixed before "
        "anybody came, is public now, and gives the same order again."
    )


def _table(verdicts: list[Verdict]) -> Table:
    seen = {each.name: each for each in verdicts}
    table = Table("lane", "overtaken", "share of the turns", "wanted", box=box.SIMPLE)
    for lane in Lane:
        name = lane.name.lower()
        share = seen[f"share of the {name} lane"]
        overtaken = seen[f"people overtaken in the {name} lane"]
        table.add_row(name, overtaken.seen, share.seen, f"[dim]{share.wanted}[/]")
    return table


def _account(simulation: Simulation, verdicts: list[Verdict]) -> Account:
    fair = all(each.holds for each in verdicts if each.name.startswith("people overtaken"))
    moods = simulation.outcomes()
    return Account(
        title=TITLE,
        what="people",
        came_in=VISITORS,
        ends={
            "got a seat in the shop": moods[Mood.INSIDE] + moods[Mood.DONE],
            "were called and did not come": moods[Mood.MISSED],
            "were just being called": moods[Mood.CALLED],
            "lost patience": moods[Mood.LEFT],
            "were still in line when the box office closed": moods[Mood.WAITS],
        },
        twice=simulation.broken_promises,
        remarks=(f"{'Nobody' if fair else 'Somebody'} was overtaken in their own lane.",),
    )

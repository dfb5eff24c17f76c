"""The people: four lanes of visitors, some of whom leave, are late, or miss their turn."""

from waystation.cli.demo.stage import Account, Stage
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.waitingroom.simulator import Crowd, Mood, Simulation, Verdict

TITLE = "The line outside"
PART = "waystation.waitingroom: people in a fair queue"

VISITORS = 1_000


async def run(stage: Stage, url: str) -> Account:
    """Let a crowd stand in line, faster than time, and account for everybody in it."""
    # A server of its own, because the clock of this room is ahead of everybody else's.
    with embedded.ephemeral() as server:
        async with await connect(server.socket_url) as store:
            stage.say(
                f"{VISITORS:,} people come within half an hour, more than the shop can take. "
                "Time passes as fast as it can."
            )
            crowd = Crowd(visitors=VISITORS, hours=0.5, patience_s=400, bots=0)
            with stage.progress("people came", VISITORS) as show:
                simulation = Simulation(store, crowd, progress=lambda came, _: show(came))
                verdicts = await simulation.run()
    return _account(simulation, verdicts)


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

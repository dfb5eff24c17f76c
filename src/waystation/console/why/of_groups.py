"""Why a job that waits in a group does not start: its place there, and the turns of the group."""

from typing import Any

from waystation.bullmq.groups import Groups, GroupState
from waystation.bullmq.options import Group
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.replies import GroupTurn, Standing
from waystation.console.why.answer import Cause, Finding, at, count, iso
from waystation.console.why.recent import pace
from waystation.core.store.connection import Store
from waystation.core.store.script import Client

_PLACES = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
)  # fmt: skip


async def waiting(store: Store, keys: QueueKeys, standing: Standing) -> Finding:
    """Why a job of a group is not started, though its queue starts jobs."""
    groups = Groups(lambda: _connected(store, keys))
    facts = _facts(standing)
    for turn in standing.turns:
        state = await groups.get(Group.at(turn.path))
        if held := _held(state, turn, standing):
            text = f"waits because its group {turn.path} {held.text}; it is {_place(standing)}"
            return Finding(held.cause, text, facts | held.evidence, until_ms=held.until_ms)
    return await _in_turn(store, keys, standing, facts)


async def _connected(store: Store, keys: QueueKeys) -> tuple[Client, QueueKeys]:
    return store.hot, keys


def _held(state: GroupState, turn: GroupTurn, standing: Standing) -> Finding | None:
    """What holds a group back, if something does."""
    settings = state.settings
    match state.held_by:
        case "paused":
            return Finding(Cause.PAUSED, "is paused")
        case "concurrency":
            most = count(settings.concurrency or 0, "active job")
            return Finding(
                Cause.FULL,
                f"may have {most} at a time, and {state.active:,} are active",
                {"active": state.active, "concurrency": settings.concurrency},
            )
        case "rate" if settings.rate and turn.window_ms:
            until = standing.now_ms + turn.window_ms
            most = settings.rate.max
            return Finding(
                Cause.LIMITED,
                f"is rate-limited until {at(until)}: {state.spent:,g} of {most:,} were started "
                "in this window",
                {"spent": state.spent, "limit": most, "until": iso(until)},
                until_ms=until,
            )
        case "budget" if settings.budget:
            until = standing.now_ms + round((state.held_for_s or 0) * 1000)
            return Finding(
                Cause.LIMITED,
                f"is at its budget for the day until {at(until)}: {state.spent_today:,g} of "
                f"{settings.budget:,g} were started",
                {
                    "spent_today": state.spent_today,
                    "budget": settings.budget,
                    "until": iso(until),
                },
                until_ms=until,
            )
        case _:
            return None


async def _in_turn(
    store: Store, keys: QueueKeys, standing: Standing, facts: dict[str, Any]
) -> Finding:
    group, turns = standing.turns[0].path, turns_before(standing.turns)
    where = f"waits as {_place(standing)}"
    if turns:
        seen = await pace(store.hot, keys.events, standing.now_ms)
        served = any(each.is_served and each.before > 0 for each in standing.turns)
        share = "has had its share, next" if served else "is next"
        others = count(turns, "turn of others", "turns of others")
        text = f"{where}; {group} {share} after about {others}{seen.sentence(turns)}"
        return Finding(Cause.TURN, text, facts | {"turns_before": turns})
    if turns is None:
        text = f"{where}; {group} takes turns again when a worker next asks for a job"
        return Finding(Cause.TURN, text, facts)
    cause = Cause.BEHIND if standing.ahead else Cause.READY
    busy = f"{count(standing.active, 'job')} {'is' if standing.active == 1 else 'are'} active"
    return Finding(cause, f"{where}, which is next; {busy}", facts | {"turns_before": 0})


def turns_before(turns: tuple[GroupTurn, ...]) -> int | None:
    """About how many jobs of others start before the next of a group; None when it takes no turns.

    Each that is before it is counted with one turn, though a cheaper one may have more. A group
    that waits for others in its parent waits for a whole round of the queue with each.
    """
    before = 0
    for turn in turns:
        if turn.before < 0:
            return None
        before = before * turn.among + turn.before
    return before


def _place(standing: Standing) -> str:
    group, ahead = standing.turns[0].path, max(standing.ahead, 0)
    nth = f"the {_PLACES[ahead]}" if ahead < len(_PLACES) else f"number {ahead + 1:,}"
    return f"{nth} in group {group}"


def _facts(standing: Standing) -> dict[str, Any]:
    own = standing.turns[0]
    return {"group": own.path, "place": standing.ahead + 1, "ahead": standing.ahead}

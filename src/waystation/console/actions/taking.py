"""Taking an action: checked, counted, taken and noted in the audit log."""

from waystation.console.actions.kinds import ACTIONS, ALWAYS, MOST_IDS, Act, Acted
from waystation.console.context import Console
from waystation.console.products.queue import ConsoleQueue
from waystation.core.errors import InvalidOption
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import Operator


async def take(
    console: Console, who: Operator, queue: ConsoleQueue, name: str, asked: Act
) -> Acted:
    """Take an action on a queue, its jobs or its schedulers, or count what it would concern."""
    if name not in ACTIONS or name not in queue.actions:
        raise Problem(404, Code.NOT_FOUND, f"{queue.product} has no such action")
    _check(asked, name, queue)
    plan = await queue.plan(name, asked, by=who.name)
    if asked.dry_run:
        return Acted(action=name, affected=plan.affected, done=False)
    if asked.expected is not None and plan.affected > asked.expected:
        raise Problem(
            412,
            Code.CHANGED_MEANWHILE,
            f"{plan.affected} are concerned by now, not {asked.expected}; look again",
        )
    taken = await plan.take()
    affected = taken if type(taken) is int else plan.affected
    after = {"affected": affected, "reason": asked.reason, "ids": asked.ids[:20], **plan.note}
    await console.note(who, name, f"{queue.product}/{queue.name}", after=after)
    return Acted(action=name, affected=affected, done=True)


def _check(asked: Act, name: str, queue: ConsoleQueue) -> None:
    if len(asked.ids) > MOST_IDS:
        raise InvalidOption(f"ids may name {MOST_IDS} jobs, got {len(asked.ids)}")
    known = (*ALWAYS, *ACTIONS[name].takes)
    defaults = Act()
    for field in Act.__struct_fields__:
        if field not in known and getattr(asked, field) != getattr(defaults, field):
            raise InvalidOption(f"{name} takes no {field}")
    if ACTIONS[name].confirmed and not asked.dry_run and asked.confirm != queue.name:
        raise Problem(422, Code.NOT_CONFIRMED, "confirm must be the name of the queue")

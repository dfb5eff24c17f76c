"""Groups: jobs of many customers in one queue, which take turns whatever each of them adds."""

import math
from typing import Any, Literal, TypeAlias, cast

import msgspec

from waystation.bullmq.limits import Limit
from waystation.bullmq.options import LEAST_SHARE, MOST_SHARE, Group, check_share, group_of
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.client import Connect
from waystation.bullmq.redis.replies import StoredGroup
from waystation.core import codec
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.options import at_least, check_fields, checked
from waystation.core.store.commands import ask

_READ_AT_ONCE = 250

EVERY, EVERY_OF_A_PARENT, UNGROUPED = "*", "*/*", ""
"""Whose settings hold for groups, for groups of a parent, and for the jobs without one."""


HeldBy: TypeAlias = Literal["paused", "concurrency", "rate", "budget"]
"""What keeps a group from starting jobs."""


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for a group; what is None is as it is for all groups."""

    concurrency: int | None = None
    """How many of its jobs may run at once, over all workers."""
    rate: Limit | None = None
    """How many of its jobs, or how much cost, may start in a stretch of time."""
    budget: float | None = None
    """How much cost may start on one day (UTC); `group-budget` is emitted at four fifths of it."""
    weight: float | None = None
    """A group of weight 2 gets twice the service of one of weight 1."""
    max_size: int | None = None
    """How many of its jobs may wait; another one is refused."""
    paused: bool = False
    """None of its jobs are started."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("concurrency", "max_size"):
            if (value := getattr(self, name)) is not None:
                at_least(f"{name} of a group", value, 1)
        for name in ("budget", "weight"):
            if (value := getattr(self, name)) is not None:
                check_share(name, value)


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group as it was when it was read."""

    group: Group
    """Its id, and that of its parent."""
    waiting: int
    """How many of its jobs wait, those of the groups in it included."""
    active: int
    """How many of its jobs workers hold."""
    settings: GroupSettings
    """What holds for it, whether it was set for it or for all."""
    held_for_s: float | None = None
    """For how long it is held at a limit, infinity while it is paused; None when it is not."""
    spent: float = 0
    """The cost that has been started in the window of its rate limit."""
    spent_today: float = 0
    """The cost that has been started on this day, while it has a budget."""

    @property
    def path(self) -> str:
        """The group's name in commands: `acme`, or `acme/key`."""
        return self.group.path

    @property
    def held_by(self) -> HeldBy | None:
        """What holds it back: `paused`, or its `concurrency`, `rate` or `budget`; None: nothing."""
        rate, budget = self.settings.rate, self.settings.budget
        if self.settings.paused:
            return "paused"
        if self.settings.concurrency is not None and self.active >= self.settings.concurrency:
            return "concurrency"
        if budget is not None and self.spent_today >= budget:
            return "budget"
        # Its next job may cost more than what is left.
        if rate is not None and (self.spent >= rate.max or self.held_for_s):
            return "rate"
        return "budget" if budget is not None and self.held_for_s else None


_States: TypeAlias = list[GroupState]
_Paths: TypeAlias = list[str]
_LIMITS = ("concurrency", "max", "duration", "budget", "weight", "maxSize")


@checked
class Groups:
    """The groups of a queue: `queue.groups`.

    A group needs no making: it is there while jobs of it are. `group` is an id, a `Group`, or None,
    which stands for all jobs without a group.
    """

    def __init__(self, connect: Connect) -> None:
        """Internal: a queue makes it."""
        self._connect = connect

    async def list(self, *, offset: int = 0, limit: int = 100) -> _States:
        """The groups of which jobs wait, those with the most first."""
        client, keys = await self._connect()
        at_least("offset", offset, 0)
        last = offset + at_least("limit", limit, 1) - 1
        paths = await ask(client, "ZREVRANGE", keys.groups_sizes, offset, last)
        return await self._read([codec.as_text(path) for path in paths])

    async def count(self) -> int:
        """How many groups have jobs that wait."""
        client, keys = await self._connect()
        return await ask(client, "ZCARD", keys.groups_sizes)

    async def count_jobs(self) -> int:
        """How many jobs wait in all groups."""
        client, keys = await self._connect()
        return await ask(client, "ZCARD", keys.grouped)

    async def get(self, group: Group | str) -> GroupState:
        """A group as it is now; one of which no job is there has zeros."""
        [state] = await self._read([group_of(group).path])
        return state

    async def settings(self, group: Group | str | None = None) -> GroupSettings:
        """What was set for a group itself, or for the jobs without one."""
        client, keys = await self._connect()
        path = UNGROUPED if group is None else group_of(group).path
        return _settings(await ask(client, "HGET", keys.groups_settings, path))

    async def set(
        self,
        group: Group | str | None,
        *,
        concurrency: int | None = None,
        rate: Limit | None = None,
        budget: float | None = None,
        weight: float | None = None,
        max_size: int | None = None,
    ) -> None:
        """Set something for one group, while workers run; what is not given stays.

        For the jobs without a group only `weight` can be set: `limits` holds for the whole queue.
        """
        given = GroupSettings(
            concurrency=concurrency, rate=rate, budget=budget, weight=weight, max_size=max_size
        )
        if group is None and given != GroupSettings(weight=weight):
            raise InvalidOption("jobs without a group have a weight only: see queue.limits")
        await self._change(UNGROUPED if group is None else group_of(group).path, _stored(given))

    async def set_for_all(
        self,
        *,
        concurrency: int | None = None,
        rate: Limit | None = None,
        budget: float | None = None,
        weight: float | None = None,
        max_size: int | None = None,
        in_parents: bool = False,
    ) -> None:
        """Set something for all groups that have no setting of their own; what is not given stays.

        With `in_parents` it holds for the groups that belong to another one, instead.
        """
        given = GroupSettings(
            concurrency=concurrency, rate=rate, budget=budget, weight=weight, max_size=max_size
        )
        await self._change(EVERY_OF_A_PARENT if in_parents else EVERY, _stored(given))

    async def reset(self, group: Group | str | None) -> None:
        """Forget what was set for a group; a paused one stays paused."""
        path = UNGROUPED if group is None else group_of(group).path
        await self._change(path, dict.fromkeys(_LIMITS))

    async def reset_for_all(self, *, in_parents: bool = False) -> None:
        """Forget what was set for all groups."""
        path = EVERY_OF_A_PARENT if in_parents else EVERY
        await self._change(path, dict.fromkeys(_LIMITS))

    async def pause(self, group: Group | str) -> None:
        """Start no jobs of a group until it is resumed; active ones go on."""
        await self._change(group_of(group).path, {"paused": True})

    async def resume(self, group: Group | str) -> None:
        """Start jobs of a group again."""
        await self._change(group_of(group).path, {"paused": None})

    async def _change(self, path: str, changes: dict[str, Any]) -> None:
        client, keys = await self._connect()
        # None removes; an empty change is no call at all.
        if changes:
            await scripts.change_group(client, keys, path=path, changes=codec.encode(changes))

    async def _read(self, paths: _Paths) -> _States:
        client, keys = await self._connect()
        found: _States = []
        for first in range(0, len(paths), _READ_AT_ONCE):
            some = paths[first : first + _READ_AT_ONCE]
            states = await scripts.read_groups(client, keys, paths=some)
            found += [_state(path, state) for path, state in zip(some, states, strict=True)]
        return found


def group_named(path: str) -> Group:
    """The group that a command names by its path."""
    if path in (EVERY, EVERY_OF_A_PARENT) or path.count("/") > 1:
        raise InvalidOption(
            f"a group is named as acme or acme/key, with %2F for a slash in an id, got {path!r}"
        )
    return Group.at(path)


async def set_named(groups: Groups, path: str, given: GroupSettings) -> None:
    """Set something for the group that a command names, for all, or for the jobs without one."""
    some: Any = {
        name: getattr(given, name)
        for name in ("concurrency", "rate", "budget", "weight", "max_size")
    }
    if path in (EVERY, EVERY_OF_A_PARENT):
        await groups.set_for_all(**some, in_parents=path == EVERY_OF_A_PARENT)
    else:
        await groups.set(None if path == UNGROUPED else group_named(path), **some)


async def reset_named(groups: Groups, path: str) -> None:
    """Forget what was set for the group that a command names, for all, or for those without."""
    if path in (EVERY, EVERY_OF_A_PARENT):
        await groups.reset_for_all(in_parents=path == EVERY_OF_A_PARENT)
    else:
        await groups.reset(None if path == UNGROUPED else group_named(path))


def _state(path: str, stored: StoredGroup) -> GroupState:
    return GroupState(
        group=Group.at(path),
        waiting=stored.waiting,
        active=stored.active,
        settings=_settings(stored.every, stored.own),
        held_for_s=stored.held_ms and stored.held_ms / 1000,
        spent=stored.spent,
        spent_today=stored.spent_today,
    )


def _stored(given: GroupSettings) -> dict[str, Any]:
    named = {
        "concurrency": given.concurrency,
        "max": given.rate and given.rate.max,
        "duration": given.rate and given.rate.duration_ms,
        "budget": given.budget,
        "weight": given.weight,
        "maxSize": given.max_size,
    }
    return {name: value for name, value in named.items() if value is not None}


def _settings(*texts: bytes | None) -> GroupSettings:
    """What is stored for a group, the last text first; what cannot be read is not set."""
    found: dict[str, Any] = {}
    for text in texts:
        try:
            found |= cast(dict[str, Any], codec.decode(text)) if text else {}
        except (Malformed, TypeError, ValueError):
            continue
    most, window = _whole(found.get("max")), _share(found.get("duration"))
    return GroupSettings(
        concurrency=_whole(found.get("concurrency")),
        rate=Limit(most, window / 1000) if most and window else None,
        budget=_share(found.get("budget")),
        weight=_share(found.get("weight")),
        max_size=_whole(found.get("maxSize")),
        paused=bool(found.get("paused")),
    )


def _whole(value: Any) -> int | None:
    return math.ceil(value) if _is_from(value, 2**53) else None


def _share(value: Any) -> float | None:
    return value if _is_from(value, MOST_SHARE) else None


def _is_from(value: Any, to: float) -> bool:
    """Whether it is a number above zero; whatever else another client has written is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and LEAST_SHARE <= value <= to

"""What everybody on one loop uses together."""

import asyncio

import pytest

from waystation.core.shared import Shared


class Things:
    """Makes things, and remembers which were made and closed."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.closed: list[str] = []
        self.may_make = asyncio.Event()
        self.may_make.set()
        self.broken = False
        self.shared = Shared(self._make, self._close)

    async def _make(self, key: str) -> str:
        await self.may_make.wait()
        if self.broken:
            raise OSError("not now")
        self.made.append(key)
        return f"{key} {len(self.made)}"

    async def _close(self, thing: str) -> None:
        await asyncio.sleep(0)
        self.closed.append(thing)


async def test_a_thing_is_made_by_the_first_and_closed_by_the_last() -> None:
    things = Things()

    taken = await asyncio.gather(*(things.shared.take("a") for _ in range(3)))
    other = await things.shared.take("b")

    assert (taken, other) == (["a 1"] * 3, "b 2")
    await things.shared.give_back("a")
    await things.shared.give_back("a")
    assert things.closed == []
    await things.shared.give_back("a")
    assert things.closed == ["a 1"]
    assert await things.shared.take("a") == "a 3"


async def test_what_could_not_be_made_is_tried_again_by_the_next() -> None:
    things = Things()
    things.broken = True
    for outcome in await asyncio.gather(
        things.shared.take("a"), things.shared.take("a"), return_exceptions=True
    ):
        assert isinstance(outcome, OSError)
    things.broken = False

    assert await things.shared.take("a") == "a 1"
    await things.shared.give_back("a")

    assert things.closed == ["a 1"]


async def test_whoever_gives_up_while_it_is_made_stops_nobody_else() -> None:
    things = Things()
    things.may_make.clear()
    first, second = (asyncio.create_task(things.shared.take("a")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    things.may_make.set()

    assert await second == "a 1"
    await things.shared.give_back("a")
    assert things.closed == ["a 1"]


async def test_what_nobody_waits_for_any_more_is_not_made() -> None:
    things = Things()
    things.may_make.clear()
    only = asyncio.create_task(things.shared.take("a"))
    await asyncio.sleep(0)
    only.cancel()
    await asyncio.wait([only])
    things.may_make.set()
    await asyncio.sleep(0)

    assert (things.made, things.closed) == ([], [])


async def test_it_is_given_back_however_one_leaves() -> None:
    things = Things()

    with pytest.raises(LookupError):
        async with things.shared.using("a"):
            raise LookupError("lost")

    assert things.closed == ["a 1"]


def test_every_loop_has_its_own() -> None:
    things: list[Things] = []

    async def use() -> str:
        if not things:
            things.append(Things())
        return await things[0].shared.take("a")

    assert [asyncio.run(use()), asyncio.run(use())] == ["a 1", "a 2"]

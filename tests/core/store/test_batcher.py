import asyncio
from collections.abc import Sequence

from waystation.core.errors import StoreUnreachable
from waystation.core.store.connection.batcher import Batcher


class Office:
    """Answers with the double, when it is told to."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.fails = False

    async def answer(self, questions: Sequence[int]) -> list[int]:
        self.asked.append(list(questions))
        await self.may_answer.wait()
        if self.fails:
            raise StoreUnreachable("nobody answers")
        return [2 * each for each in questions]


async def test_what_is_asked_while_an_answer_is_under_way_leaves_in_one_call() -> None:
    office = Office()
    together = Batcher(office.answer)
    first = together.ask(1)
    while not office.asked:
        await asyncio.sleep(0)
    others = [together.ask(each) for each in (2, 3, 4)]
    office.may_answer.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8]
    assert office.asked == [[1], [2, 3, 4]]


async def test_no_call_carries_more_than_it_may() -> None:
    office = Office()
    office.may_answer.set()
    together = Batcher(office.answer, most=2)
    assert await asyncio.gather(*(together.ask(each) for each in range(5))) == [0, 2, 4, 6, 8]
    assert office.asked == [[0, 1], [2, 3], [4]]


async def test_everybody_in_a_call_that_fails_is_told_and_the_next_is_asked() -> None:
    office = Office()
    office.may_answer.set()
    office.fails = True
    together = Batcher(office.answer)
    answers = await asyncio.gather(together.ask(1), together.ask(2), return_exceptions=True)
    assert [type(each) for each in answers] == [StoreUnreachable, StoreUnreachable]
    office.fails = False
    assert await together.ask(3) == 6


async def test_whoever_gives_up_takes_nobody_along() -> None:
    office = Office()
    together = Batcher(office.answer)
    gone, stays = together.ask(1), together.ask(2)
    gone.cancel()
    office.may_answer.set()
    assert await stays == 4

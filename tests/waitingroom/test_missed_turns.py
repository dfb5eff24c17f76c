"""A turn that was missed: taken back for a while, and then lost for good."""

import pytest

from tests.waitingroom.hands import Hands
from waystation.waitingroom.visitor import Called, Gone, Late, Returned


async def test_a_missed_turn_can_be_taken_back_at_the_old_place(hands: Hands) -> None:
    """F11: the spec forgets whoever closes the page at the wrong moment."""
    await hands.open(admission_rate=2, claim_window=120, missed=600)
    await hands.join_all("a", "b", "c", "d")
    assert await hands.admit() == ["a", "b"]
    await hands.clock.advance(121)
    assert await hands.admit() == ["c", "d"]
    assert isinstance(await hands.status("a"), Late)
    await hands.join("e")
    assert await hands.room.recover(hands.places["b"], "b") == Returned(ahead=0)
    assert await hands.room.recover(hands.places["a"], "a") == Returned(ahead=0)
    assert await hands.status("b") == Returned(ahead=1)
    await hands.clock.advance(1)
    assert await hands.admit() == ["a", "b"]
    await hands.come_in("a")


async def test_a_missed_turn_is_lost_for_good_after_a_while(hands: Hands) -> None:
    """F11: ten minutes, then it is over."""
    await hands.open(claim_window=120, missed=600)
    await hands.join("a")
    await hands.admit()
    await hands.clock.advance(121)
    await hands.admit()
    await hands.clock.advance(600)
    assert await hands.room.recover(hands.places["a"], "a") == Gone()
    await hands.expire()
    assert (await hands.event_names("a"))[-1] == "expired"


@pytest.mark.parametrize("swept", [True, False])
async def test_a_turn_that_is_lost_is_no_place_to_leave(hands: Hands, swept: bool) -> None:
    """F11: whether or not anybody has swept it away, status, recover and leave say the same."""
    await hands.open(claim_window=20, missed=40)
    await hands.join("a")
    await hands.admit()
    await hands.clock.advance(61)
    if swept:
        await hands.admit()
    assert await hands.status("a") == Gone()
    assert await hands.room.recover(hands.places["a"], "a") == Gone()
    assert await hands.room.leave(hands.places["a"], "a") is False
    await hands.admit()
    await hands.expire()
    assert (await hands.event_names("a"))[-2:] == ["missed", "expired"]


async def test_a_shorter_claim_window_counts_for_the_next_one_and_frees_the_seat(
    hands: Hands,
) -> None:
    """F11: neither rounds that called nobody nor windows of before hold it back."""
    await hands.open(admission_rate=1, burst=1, claim_window=120, max_active=3)
    await hands.join("first")
    for _ in range(5):
        await hands.clock.advance(1)
        await hands.admit()
    await hands.room.store.write({"claim_window_s": "10"})
    await hands.join("next")
    await hands.clock.advance(1)
    assert await hands.admit() == ["next"]
    now_ms = hands.clock.now_ms()
    first, status = await hands.status("first"), await hands.status("next")
    assert isinstance(status, Called)
    assert isinstance(first, Called)
    assert status.until_ms == now_ms + 10_000
    # Whoever was promised longer has longer.
    assert first.until_ms > now_ms + 100_000
    await hands.clock.advance(10)
    await hands.admit()
    assert isinstance(await hands.status("next"), Late)
    assert (await hands.room.state()).free == 2

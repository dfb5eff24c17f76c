"""A turn that was missed: taken back for a while, and then lost for good."""

import pytest

from tests.waitingroom.hands import Hands
from waystation.waitingroom.visitor import Begun, Called, Gone, Late, Returned


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


async def test_every_length_that_is_changed_counts_for_the_very_next_visitor(hands: Hands) -> None:
    """F11: what the next one reads is what was set last, whoever came before."""
    lengths = {"claim_window": 10, "session": 20, "missed": 30, "rejoin": 40}
    await hands.open(admission_rate=10, burst=10)
    await hands.join_all("before")
    await hands.admit()
    await hands.come_in("before")
    changed = {f"{name}_s": str(length) for name, length in lengths.items()}
    await hands.room.store.write(changed)
    await hands.join_all("in", "late", "left")
    await hands.room.leave(hands.places["left"], "left")
    assert await hands.admit() == ["in", "late"]
    now_ms = hands.clock.now_ms()
    begun, called = await hands.claim("in"), await hands.status("late")
    assert isinstance(begun, Begun)
    assert isinstance(called, Called)
    left = await hands.room.rejoinable_until(hands.places["left"])
    assert left is not None
    await hands.clock.advance(11)
    late = await hands.status("late")
    assert isinstance(late, Late)
    read = {
        "claim_window": called.until_ms - now_ms,
        "session": begun.until_ms - now_ms,
        "missed": late.until_ms - called.until_ms,
        "rejoin": round(left.timestamp() * 1000) - now_ms,
    }
    # One microsecond apart, so that the order of two calls is known.
    assert {name: round(ms / 1000) for name, ms in read.items()} == lengths

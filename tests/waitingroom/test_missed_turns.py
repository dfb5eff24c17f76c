"""A turn that was missed: taken back for a while, and then lost for good."""

import pytest

from tests.waitingroom.harness import Harness
from waystation.waitingroom.visitor import Begun, Called, Gone, Late, Returned


async def test_a_missed_turn_can_be_taken_back_at_the_old_place(harness: Harness) -> None:
    """F11: the spec forgets whoever closes the page at the wrong moment."""
    await harness.open(admission_rate=2, claim_window=120, missed=600)
    await harness.join_all("a", "b", "c", "d")
    assert await harness.admit() == ["a", "b"]
    await harness.clock.advance(121)
    assert await harness.admit() == ["c", "d"]
    assert isinstance(await harness.status("a"), Late)
    await harness.join("e")
    assert await harness.room.recover(harness.places["b"], "b") == Returned(ahead=0)
    assert await harness.room.recover(harness.places["a"], "a") == Returned(ahead=0)
    assert await harness.status("b") == Returned(ahead=1)
    await harness.clock.advance(1)
    assert await harness.admit() == ["a", "b"]
    await harness.come_in("a")


async def test_a_missed_turn_is_lost_for_good_after_a_while(harness: Harness) -> None:
    """F11: ten minutes, then it is over."""
    await harness.open(claim_window=120, missed=600)
    await harness.join("a")
    await harness.admit()
    await harness.clock.advance(121)
    await harness.admit()
    await harness.clock.advance(600)
    assert await harness.room.recover(harness.places["a"], "a") == Gone()
    await harness.expire()
    assert (await harness.event_names("a"))[-1] == "expired"


@pytest.mark.parametrize("swept", [True, False])
async def test_a_turn_that_is_lost_is_no_place_to_leave(harness: Harness, swept: bool) -> None:
    """F11: whether or not anybody has swept it away, status, recover and leave say the same."""
    await harness.open(claim_window=20, missed=40)
    await harness.join("a")
    await harness.admit()
    await harness.clock.advance(61)
    if swept:
        await harness.admit()
    assert await harness.status("a") == Gone()
    assert await harness.room.recover(harness.places["a"], "a") == Gone()
    assert await harness.room.leave(harness.places["a"], "a") is False
    await harness.admit()
    await harness.expire()
    assert (await harness.event_names("a"))[-2:] == ["missed", "expired"]


async def test_a_shorter_claim_window_counts_for_the_next_one_and_frees_the_seat(
    harness: Harness,
) -> None:
    """F11: neither rounds that called nobody nor windows of before hold it back."""
    await harness.open(admission_rate=1, burst=1, claim_window=120, max_active=3)
    await harness.join("first")
    for _ in range(5):
        await harness.clock.advance(1)
        await harness.admit()
    await harness.room.store.write({"claim_window_s": "10"})
    await harness.join("next")
    await harness.clock.advance(1)
    assert await harness.admit() == ["next"]
    now_ms = harness.clock.now_ms()
    first, status = await harness.status("first"), await harness.status("next")
    assert isinstance(status, Called)
    assert isinstance(first, Called)
    assert status.until_ms == now_ms + 10_000
    # Whoever was promised longer has longer.
    assert first.until_ms > now_ms + 100_000
    await harness.clock.advance(10)
    await harness.admit()
    assert isinstance(await harness.status("next"), Late)
    assert (await harness.room.state()).free == 2


async def test_every_length_that_is_changed_counts_for_the_very_next_visitor(
    harness: Harness,
) -> None:
    """F11: what the next one reads is what was set last, whoever came before."""
    lengths = {"claim_window": 10, "session": 20, "missed": 30, "rejoin": 40}
    await harness.open(admission_rate=10, burst=10)
    await harness.join_all("before")
    await harness.admit()
    await harness.come_in("before")
    changed = {f"{name}_s": str(length) for name, length in lengths.items()}
    await harness.room.store.write(changed)
    await harness.join_all("in", "late", "left")
    await harness.room.leave(harness.places["left"], "left")
    assert await harness.admit() == ["in", "late"]
    now_ms = harness.clock.now_ms()
    begun, called = await harness.claim("in"), await harness.status("late")
    assert isinstance(begun, Begun)
    assert isinstance(called, Called)
    left = await harness.room.rejoinable_until(harness.places["left"])
    assert left is not None
    await harness.clock.advance(11)
    late = await harness.status("late")
    assert isinstance(late, Late)
    read = {
        "claim_window": called.until_ms - now_ms,
        "session": begun.until_ms - now_ms,
        "missed": late.until_ms - called.until_ms,
        "rejoin": round(left.timestamp() * 1000) - now_ms,
    }
    # One microsecond apart, so that the order of two calls is known.
    assert {name: round(ms / 1000) for name, ms in read.items()} == lengths

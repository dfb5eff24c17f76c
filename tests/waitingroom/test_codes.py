"""Access codes: what they open, to how many, and for how long."""

import random

import pytest

from tests.waitingroom.harness import Harness
from waystation.core.errors import InvalidOption
from waystation.waitingroom.operating.codes import PAGE, Batch, Codes, plain
from waystation.waitingroom.visitor import Lane

BITS = random.Random(5)


async def test_a_code_opens_its_lane_to_as_many_as_it_says(harness: Harness) -> None:
    await harness.open()
    codes = Codes(harness.room)
    [code] = await codes.make("press", 1, bits=BITS, lane=Lane.VIP, uses=2)
    assert await codes.redeem(code, "ann") is Lane.VIP
    assert await codes.redeem(code, "ann") is Lane.VIP
    assert await codes.redeem(code, "bob") is Lane.VIP
    assert await codes.redeem(code, "eve") is None
    assert await codes.redeem(code, "ann") is Lane.VIP


async def test_a_code_counts_however_it_is_typed(harness: Harness) -> None:
    await harness.open()
    codes = Codes(harness.room)
    [code] = await codes.make("press", 1, bits=BITS)
    typed = code.lower().replace("0", "o").replace("1", "l").replace("-", " ")
    assert plain(typed) == plain(code)
    assert await codes.redeem(typed, "ann") is Lane.NORMAL


async def test_a_code_runs_out_and_can_be_taken_back(harness: Harness) -> None:
    await harness.open()
    codes = Codes(harness.room)
    ends = harness.clock.now_ms() // 1000 + 60
    [short] = await codes.make("short", 1, bits=BITS, uses=9, expires_s=ends)
    [long] = await codes.make("long", 1, bits=BITS, uses=9)
    await harness.clock.advance(61)
    assert await codes.redeem(short, "ann") is None
    assert await codes.redeem(long, "ann") is Lane.NORMAL
    assert await codes.batches() == [
        Batch(batch="long", lane=Lane.NORMAL, uses=9, codes=1, used=1, expires_s=0),
        Batch(batch="short", lane=Lane.NORMAL, uses=9, codes=1, used=0, expires_s=ends),
    ]
    assert await codes.revoke("long") == 1
    assert await codes.redeem(long, "ann") is None


async def test_a_batch_made_twice_is_told_on_its_own_terms(harness: Harness) -> None:
    await harness.open()
    codes = Codes(harness.room)
    await codes.make("press", 2, bits=BITS, uses=9)
    await codes.make("press", 3, bits=BITS, lane=Lane.VIP)
    batches = [(each.lane, each.uses, each.codes) for each in await codes.batches()]
    assert sorted(batches) == [(Lane.NORMAL, 9, 2), (Lane.VIP, 1, 3)]
    assert await codes.revoke("press") == 5


async def test_codes_are_read_a_page_at_a_time(harness: Harness) -> None:
    """A hash of a million fields, read at once, would stop everybody's line."""
    await harness.open()
    codes, most = Codes(harness.room), 2 * PAGE
    [code, *_] = await codes.make("press", most, bits=BITS, uses=most)
    for visitor in range(3):
        await codes.redeem(code, f"visitor {visitor}")
    read = await harness.redis.config_resetstat()
    [batch] = await codes.batches()
    assert (batch.codes, batch.used, read) == (most, 3, True)
    commands = await harness.redis.info("commandstats")
    assert "cmdstat_hgetall" not in commands
    assert await codes.revoke("press") == most


async def test_no_code_is_kept_as_it_is(harness: Harness) -> None:
    await harness.open()
    made = await Codes(harness.room).make("press", 50, bits=BITS)
    kept = await harness.redis.dump(harness.keys.codes) or b""
    assert kept
    assert not any(plain(code).encode() in kept or code.encode() in kept for code in made)
    assert len(set(made)) == 50


@pytest.mark.parametrize(
    "wrong", [{"batch": "a:b"}, {"batch": ""}, {"count": 0}, {"uses": 0}, {"expires_s": -1}]
)
async def test_codes_that_cannot_be_are_refused(harness: Harness, wrong: dict[str, object]) -> None:
    await harness.open()
    asked: dict[str, object] = {"batch": "b", "count": 1, "bits": BITS, **wrong}
    with pytest.raises(InvalidOption):
        await Codes(harness.room).make(**asked)  # pyright: ignore[reportArgumentType]
    assert await Codes(harness.room).batches() == []

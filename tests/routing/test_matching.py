"""Which worker gets which job: the script held against an oracle."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.routing.harness import Harness
from tests.routing.oracle import fits
from waystation.core import codec
from waystation.routing import Limit, Target
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.registry import Profile
from waystation.routing.target import signature

SERVERS = ("s1", "s2")
TYPES = ("email", "video")
STACKS = ("node", "python", "go")
REGIONS = ("eu", "us", "ap")
WANTED = ("gpu", "video:encode", "video:decode", "video:", "sms", "a*b", "[x]", "é")
OFFERED = (*WANTED, "video:*", "*", "v?deo:*code", "*:*", "g*u", "??u", "**sms", "[x]*")

CASES = 6_000


def _some(values: tuple[str, ...], most: int = 3) -> Any:
    return st.lists(st.sampled_from(values), max_size=most).map(tuple)


targets = st.tuples(
    st.sampled_from(TYPES),
    st.builds(
        Target,
        server=st.none() | st.none() | st.none() | st.sampled_from(SERVERS),
        stack=_some(STACKS),
        capabilities=_some(WANTED),
        region=_some(REGIONS),
        mode=st.sampled_from(("any", "all")),
        match=st.sampled_from(("category-all", "category-any")),
        avoid=st.just(()) | st.just(()) | _some(SERVERS, 1),
    ),
)
workers = st.builds(
    Profile,
    server=st.sampled_from(SERVERS),
    stack=st.sampled_from(STACKS),
    region=st.sampled_from((*REGIONS, "")),
    capabilities=_some(OFFERED, 5),
    types=st.just(()) | _some(TYPES, 1),
)


def generated_target(dice: random.Random) -> tuple[str, Target]:
    def some(values: tuple[str, ...], most: int = 3) -> tuple[str, ...]:
        return tuple(dice.choices(values, k=dice.randint(0, most)))

    return dice.choice(TYPES), Target(
        server=dice.choice((None, None, None, *SERVERS)),
        stack=some(STACKS, 2),
        capabilities=some(WANTED),
        region=some(REGIONS, 2),
        mode=dice.choice(("any", "all")),
        match=dice.choice(("category-all", "category-any")),
        avoid=dice.choice(((), (), SERVERS[:1], SERVERS[1:])),
    )


def generated_worker(dice: random.Random) -> Profile:
    return Profile(
        server=dice.choice(SERVERS),
        stack=dice.choice(STACKS),
        region=dice.choice((*REGIONS, "")),
        capabilities=tuple(dice.choices(OFFERED, k=dice.randint(0, 5))),
        types=dice.choice(((), (), TYPES[:1], TYPES)),
    )


async def matched(
    harness: Harness, worker: Profile, wanted: list[tuple[str, Target]]
) -> list[bool]:
    keys = RoutingKeys("matching")
    await harness.redis.delete(keys.heads)
    names = [signature(type, target) for type, target in wanted]
    await harness.redis.zadd(keys.heads, dict.fromkeys(names, 1))
    rows = await scripts.coverage(
        harness.redis,
        keys,
        now="",
        profiles=b"[" + worker.matched() + b"]",
        first=0,
        count=1000,
    )
    await harness.redis.delete(keys.heads)
    found = {row[0].decode(): bool(row[3][0]) for row in rows}
    return [found[name] for name in names]


async def test_the_script_and_the_oracle_agree_on_who_fits(harness: Harness) -> None:
    """B-40 B-41 B-42 F-B11"""
    dice = random.Random(2024)
    agreed: Counter[bool] = Counter()
    while agreed.total() < CASES:
        worker, wanted = generated_worker(dice), [generated_target(dice) for _ in range(50)]
        found = await matched(harness, worker, wanted)
        for (type, target), decided in zip(wanted, found, strict=True):
            assert decided is fits(type, target, worker), (type, target, worker)
            agreed[decided] += 1

    # Both answers come often enough to mean something.
    assert min(agreed.values()) > CASES // 10


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(worker=workers, wanted=st.lists(targets, min_size=1, max_size=12))
async def test_a_claim_brings_exactly_what_fits_in_order(
    harness: Harness, worker: Profile, wanted: list[tuple[str, Target]]
) -> None:
    """B-37 B-40 B-43"""
    await harness.redis.flushdb()
    ids = [await harness.add(type, target=target) for type, target in wanted]
    source = harness.source(
        worker.server,
        stack=worker.stack,
        region=worker.region,
        capabilities=worker.capabilities,
        types=worker.types,
    )

    claimed = await harness.claim_ids(source, 100)

    pairs = zip(ids, wanted, strict=True)
    assert claimed == [id for id, (type, target) in pairs if fits(type, target, worker)]
    assert sorted([*claimed, *await harness.waiting()]) == sorted(ids)


@pytest.mark.parametrize(
    ("target", "capabilities", "stack", "expected"),
    [
        (Target(), (), "node", True),
        (Target(server="w1", stack=("go",)), (), "node", True),
        (Target(server="w2"), (), "node", False),
        (Target(stack=("node", "go")), (), "node", True),
        (Target(stack=("node", "go"), mode="all"), (), "node", False),
        (Target(capabilities=("gpu", "sms")), ("gpu",), "node", True),
        (Target(capabilities=("gpu", "sms"), mode="all"), ("gpu",), "node", False),
        (Target(capabilities=("gpu", "sms"), mode="all"), ("sms", "gpu", "x"), "node", True),
        (Target(stack=("go",), capabilities=("gpu",)), ("gpu",), "node", False),
        (Target(capabilities=("video:encode",)), ("video:*",), "node", True),
        (Target(capabilities=("video:*",)), ("video:encode",), "node", False),
        (Target(avoid=("w1",)), (), "node", False),
        (
            Target(stack=("go",), capabilities=("gpu",), match="category-any"),
            ("gpu",),
            "node",
            True,
        ),
        (Target(stack=("go",), capabilities=("gpu",), match="category-any"), (), "node", False),
        (Target(capabilities=("gpu",), match="category-any"), (), "node", False),
        (
            Target(stack=("node",), capabilities=("a", "b"), mode="all", match="category-any"),
            ("a",),
            "node",
            True,
        ),
        (
            Target(stack=("go",), capabilities=("a", "b"), mode="all", match="category-any"),
            ("a",),
            "node",
            False,
        ),
        (Target(match="category-any"), (), "node", True),
        (Target(stack=("node",), match="category-any", avoid=("w1",)), (), "node", False),
        (Target(server="w2", stack=("node",), match="category-any"), (), "node", False),
    ],
)
async def test_the_truth_table(
    harness: Harness, target: Target, capabilities: tuple[str, ...], stack: str, expected: bool
) -> None:
    """B-40 B-41 B-42 F-B11"""
    await harness.add(target=target)

    claimed = await harness.claim(harness.source("w1", stack=stack, capabilities=capabilities))

    assert bool(claimed) is expected


def test_the_signature_is_the_same_however_the_needs_are_listed() -> None:
    one = Target(capabilities=("a", "b"), stack=("x",))
    other = Target(stack=("x",), capabilities=("b", "a"))

    assert signature("t", one) == signature("t", other)
    assert codec.decode(signature("t", one)) == ["t", "any", "", ["x"], ["a", "b"], [], []]


@pytest.mark.parametrize(
    ("target", "limit"),
    [
        (Target(), None),
        (Target(server="w1"), None),
        (Target(stack=("b", "a"), mode="all", match="category-any"), None),
        (Target(), Limit(max_per_minute=3)),
        (Target(match="category-any", region=("é",)), Limit(max_concurrent=2, max_per_minute=3)),
    ],
)
async def test_a_job_pushed_with_plain_commands_gets_the_signature_it_would_have_had(
    harness: Harness, target: Target, limit: Limit | None
) -> None:
    """B-66"""
    id = await harness.add(target=target, limit=limit)
    ours = await harness.asked("HGET", harness.keys.routes, id)
    data = await harness.asked("GET", harness.keys.of(id).data)
    await harness.redis.flushdb()

    await harness.redis.set(harness.keys.of("other").data, data)
    await harness.redis.rpush(harness.keys.waiting, "other")
    await harness.claim(harness.source("nobody", types=["nothing"]))

    assert await harness.asked("HGET", harness.keys.routes, "other") == ours

"""Advice counts while it is fresh, small and of our version; else the default does."""

import msgspec
import pytest
from redis.asyncio import Redis

from waystation.core.errors import InvalidInput
from waystation.core.store import advice
from waystation.core.store.advice import AdviceKeys, DesiredWorkers, FailureLabel, FailureLabels

NOW = 1_800_000_000_000
WORKERS = DesiredWorkers(made_at=NOW, until=NOW + 60_000, workers=7, target_wait_ms=1_000)


async def test_fresh_advice_is_read_and_stale_advice_is_not(redis: Redis) -> None:
    await redis.hset(AdviceKeys("mail").workers, "bullmq", advice.written(WORKERS).decode())

    async def asked(now_ms: int, line: str = "bullmq") -> DesiredWorkers | None:
        return (await advice.outlook(redis, "mail", line=line, now_ms=now_ms)).workers

    assert await asked(NOW + 1) == WORKERS
    assert await asked(NOW + 60_000) is None
    assert await asked(NOW + 1, "files") is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        b"not json",
        b"[]",
        b'{"v":1}',
        msgspec.json.encode(WORKERS).replace(b'"v":1', b'"v":2'),
        msgspec.json.encode(WORKERS).replace(b'"workers":7', b'"workers":"many"'),
        b" " * 5000 + msgspec.json.encode(WORKERS),
    ],
)
def test_what_cannot_be_trusted_is_done_without(text: bytes | None) -> None:
    assert advice.read(text, DesiredWorkers, now_ms=NOW) is None


def test_advice_from_a_clock_far_ahead_does_not_count() -> None:
    ahead = msgspec.structs.replace(WORKERS, made_at=NOW + 120_000, until=NOW + 10**9)
    assert advice.read(advice.written(ahead), DesiredWorkers, now_ms=NOW) is None


def test_advice_that_is_not_small_is_refused() -> None:
    labels = tuple(FailureLabel("f", "x" * 500, 1, None) for _ in range(20))
    with pytest.raises(InvalidInput, match="at most 4096 bytes"):
        advice.written(FailureLabels(made_at=NOW, until=NOW + 1, labels=labels))

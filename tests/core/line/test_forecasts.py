"""Recommendation counts while it is fresh, small and of our version; else the default does."""

import msgspec
import pytest
from redis.asyncio import Redis

from waystation.core.errors import InvalidInput
from waystation.core.line import forecasts
from waystation.core.line.forecasts import (
    DesiredWorkers,
    FailureLabel,
    FailureLabels,
    RecommendationKeys,
)

NOW = 1_800_000_000_000
WORKERS = DesiredWorkers(made_at=NOW, until=NOW + 60_000, workers=7, target_wait_ms=1_000)


async def test_a_fresh_recommendation_is_read_and_a_stale_one_is_not(redis: Redis) -> None:
    key = RecommendationKeys("mail").workers
    await redis.hset(key, "bullmq", forecasts.written(WORKERS).decode())

    async def asked(now_ms: int, product: str = "bullmq") -> DesiredWorkers | None:
        return (await forecasts.forecast(redis, "mail", product=product, now_ms=now_ms)).workers

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
    assert forecasts.read(text, DesiredWorkers, now_ms=NOW) is None


def test_advice_from_a_clock_far_ahead_does_not_count() -> None:
    ahead = msgspec.structs.replace(WORKERS, made_at=NOW + 120_000, until=NOW + 10**9)
    assert forecasts.read(forecasts.written(ahead), DesiredWorkers, now_ms=NOW) is None


def test_a_recommendation_that_is_not_small_is_refused() -> None:
    labels = tuple(FailureLabel("f", "x" * 500, 1, None) for _ in range(20))
    with pytest.raises(InvalidInput, match="may have 4096 bytes"):
        forecasts.written(FailureLabels(made_at=NOW, until=NOW + 1, labels=labels))

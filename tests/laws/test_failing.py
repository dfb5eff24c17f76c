"""What happens to work whose handler raises."""

import asyncio
from pathlib import Path

import pytest

from tests.laws.line import Line
from tests.pipeline.batches import Batches
from tests.pipeline.rounds import history_at
from waystation.core.errors import Unrecoverable
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled, Source
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import ATTEMPTS


async def fail(source: Source[object], error: Exception) -> None:
    (claim,) = (await source.settle([], claim=1)).claims
    assert not (await source.settle([Settled(claim, Failed(error))], claim=0)).refused


async def test_a_retry_waits_its_backoff(line: Line) -> None:
    id = await line.add(attempts=2, backoff_ms=60_000)
    source = line.source()
    await fail(source, RuntimeError("first"))
    assert await line.state(id) == "delayed"

    await line.pass_time(59_000)
    assert not (await source.settle([], claim=1)).claims
    await line.pass_time(2_000)

    assert [claim.id for claim in (await source.settle([], claim=1)).claims] == [id]


async def test_the_last_failure_is_final(line: Line) -> None:
    id = await line.add(attempts=3)
    source = line.source()

    for _ in range(3):
        assert await line.state(id) != "failed"
        await fail(source, RuntimeError("no"))

    assert await line.state(id) == "failed"
    assert not (await source.settle([], claim=1)).claims


async def test_an_unrecoverable_failure_is_final_at_once(line: Line) -> None:
    id = await line.add(attempts=5)

    await fail(line.source(), Unrecoverable("there is no such address"))

    assert await line.state(id) == "failed"


async def test_a_failure_does_not_hold_up_the_line(line: Line) -> None:
    await line.add(attempts=5, backoff_ms=60_000)
    second = await line.add()
    source = line.source()

    await fail(source, RuntimeError("not now"))

    assert [claim.id for claim in (await source.settle([], claim=1)).claims] == [second]


@pytest.mark.parametrize("line", ["bullmq", "files", "routing"], indirect=True)
async def test_what_a_handler_raised_is_in_the_history_with_class_and_message(
    line: Line, redis_url: str, tmp_path: Path
) -> None:
    await line.add(attempts=2)
    source = line.source()
    for _ in range(2):
        await fail(source, LookupError("no address 4711"))
    root = str(tmp_path / "history")
    await asyncio.to_thread(Batches(root, EventOptions(url=redis_url)).store)
    fold(history_at(root))
    tried = delta.read_arrow(root, ATTEMPTS, ("reason", "fingerprint")).to_pylist()
    assert len(tried) == 2
    assert all("no address 4711" in each["reason"] for each in tried)
    # One kind, whichever attempt it was.
    assert len({each["fingerprint"] for each in tried}) == 1

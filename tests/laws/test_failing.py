"""What happens to work whose handler raises."""

from tests.laws.line import Line
from waystation.core.errors import Unrecoverable
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled, Source


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

"""`waystation exporter`: numbers that Prometheus takes."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from waystation.bullmq import Queue
from waystation.cli.exporter import FAMILIES, Exported, Fixed, Numbers, merged
from waystation.core.errors import StoreUnreachable
from waystation.files import Queue as FilesQueue
from waystation.routing import Queue as RoutingQueue


class Away:
    """A line whose store has gone."""

    async def prometheus_text(self) -> str:
        raise StoreUnreachable("the store cannot be reached")


@asynccontextmanager
async def serving(redis_url: str, *args: str) -> AsyncGenerator[str]:
    """The address of an exporter of its own process."""
    command = (sys.executable, "-m", "waystation", "exporter", *args, "--port", "0")
    process = await asyncio.create_subprocess_exec(
        *command,
        env={"WAYSTATION_STORE__URL": redis_url},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    said = (await process.stderr.readline()).decode()
    yield said.split()[-1]
    process.terminate()
    assert await process.wait() == 0


async def test_prometheus_reads_what_waits_in_several_queues(redis_url: str) -> None:
    async with Queue("mail", redis_url) as mail, RoutingQueue(redis_url) as routed:
        await mail.add_many([("send", {}), ("send", {})])
        await routed.add("render")
    async with serving(redis_url, "mail", "reports", "--routing") as address:
        page = await asyncio.to_thread(lambda: urlopen(address).read().decode())
    assert 'bullmq_job_count{queue="mail",state="waiting"} 2' in page
    assert 'bullmq_job_count{queue="reports",state="waiting"} 0' in page
    assert 'waystation_jobs{product="routing",place="waiting"} 1' in page
    assert "waystation_store_up 1" in page
    names = [family.name for family in text_string_to_metric_families(page)]
    assert len(names) == len(set(names))


async def test_a_store_that_is_away_is_exported_instead_of_old_metrics(redis_url: str) -> None:
    async with Queue("mail", redis_url) as mail:
        lines: list[Exported] = [mail]
        numbers = Numbers(Fixed(lines))
        await numbers.update()
        assert b"bullmq_job_count" in numbers.expose()
        lines.append(Away())
        await numbers.update()
        assert b"bullmq_job_count" not in numbers.expose()
        assert numbers.expose().endswith(b"waystation_store_up 0\n")


async def test_a_queue_that_cannot_be_read_costs_its_own_metrics(
    redis: Redis, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Queue("mail", redis_url) as mail, Queue("odd", redis_url) as odd:
        await mail.add("send")
        await redis.set("bull:odd:wait", "no list")
        numbers = Numbers(Fixed([odd, mail]))
        for _ in range(2):
            await numbers.update()
    page = numbers.expose()
    assert b'bullmq_job_count{queue="mail",state="waiting"} 1' in page
    assert page.endswith(b"waystation_store_up 1\n")
    assert await numbers.readiness() == {"store": True}
    [said] = [each for each in caplog.messages if each.startswith("queue_not_exported")]
    assert "bull:odd:wait must hold a list" in said


def test_what_has_one_name_stands_together() -> None:
    one = '# TYPE a gauge\na{q="1"} 1\n# TYPE b gauge\nb{q="1"} 1\n'
    assert merged([one, one.replace('"1"', '"2"')]).splitlines() == [
        "# TYPE a gauge", 'a{q="1"} 1', 'a{q="2"} 1', "# TYPE b gauge", 'b{q="1"} 1', 'b{q="2"} 1',
    ]  # fmt: skip


async def test_without_names_every_queue_of_the_store_is_exported(redis_url: str) -> None:
    async with (
        Queue("mail", redis_url) as mail,
        RoutingQueue(redis_url) as routed,
        FilesQueue(redis_url) as files,
    ):
        await mail.add("send")
        await routed.add("render")
        await files.add(Path(__file__))
        async with serving(redis_url) as address:
            page = await asyncio.to_thread(lambda: urlopen(address).read().decode())
    assert 'bullmq_job_count{queue="mail",state="waiting"} 1' in page
    assert 'waystation_jobs{product="routing",place="waiting"} 1' in page
    assert 'waystation_jobs{product="files",place="jobqueue:low_priority"} 1' in page
    named = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    assert named <= {family.name for family in FAMILIES}
    # Nobody counts what ends there.
    assert "bullmq_job_completed_total" not in page

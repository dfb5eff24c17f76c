"""`--processes`: several processes, watched over by one."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S, until
from waystation.core.app.fleet import Fleet, page_of_all
from waystation.core.app.settings import TelemetrySettings
from waystation.core.telemetry.metrics import Metrics

NOTHING_SERVED = TelemetrySettings()

MEMBER = """
import asyncio, os, pathlib
from waystation.core.app.fleet import membership
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.telemetry.metrics import Metrics

async def main():
    metrics = Metrics()
    metrics.jobs_completed.of("mail").inc()
    metrics.jobs_held.of("bullmq", "mail").set(1)
    async with membership(metrics):
        pathlib.Path(f"started-{os.getpid()}").touch()
        await until_asked_to_stop()
    pathlib.Path(f"ended-{os.getpid()}").touch()

asyncio.run(main())
"""


def pids(folder: Path, what: str) -> set[int]:
    return {int(path.name.partition("-")[2]) for path in folder.glob(f"{what}-*")}


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "member.py").write_text(MEMBER)
    monkeypatch.chdir(tmp_path)
    return [sys.executable, "member.py"]


async def test_all_run_are_added_up_and_end_when_asked(command: list[str], tmp_path: Path) -> None:
    fleet = Fleet(command, 3)
    running = asyncio.create_task(fleet.run(NOTHING_SERVED))
    await until(lambda: len(pids(tmp_path, "started")) == 3)

    page = (await fleet.expose()).decode()
    assert 'jobs_completed_total{queue="mail"} 3.0' in page
    assert 'waystation_jobs_held{product="bullmq",queue="mail"} 3.0' in page
    assert set((await fleet.ready()).values()) == {True}

    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(LIMIT_S):
        assert await running == 0
    assert pids(tmp_path, "ended") == pids(tmp_path, "started")


async def test_a_member_knows_the_numbers_of_all(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(command, 2, alike="waystation_jobs_held")
    running = asyncio.create_task(fleet.run(NOTHING_SERVED))
    await until(lambda: len(pids(tmp_path, "started")) == 2)
    monkeypatch.setenv("WAYSTATION_FLEET_SOCKET", str(fleet.sockets[0]))
    page = (await page_of_all(Metrics())).decode()
    assert 'jobs_completed_total{queue="mail"} 2.0' in page
    # What every process reads from the same place is not added up.
    assert 'waystation_jobs_held{product="bullmq",queue="mail"} 1.0' in page
    monkeypatch.delenv("WAYSTATION_FLEET_SOCKET")
    assert "mail" not in (await page_of_all(Metrics())).decode()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(LIMIT_S):
        assert await running == 0


async def test_one_that_dies_is_started_again_and_what_it_counted_stays(
    command: list[str], tmp_path: Path
) -> None:
    fleet = Fleet(command, 2)
    running = asyncio.create_task(fleet.run(NOTHING_SERVED))
    await until(lambda: len(pids(tmp_path, "started")) == 2)
    await fleet.expose()

    os.kill(min(pids(tmp_path, "started")), signal.SIGKILL)
    await until(lambda: len(pids(tmp_path, "started")) == 3)

    page = (await fleet.expose()).decode()
    assert 'jobs_completed_total{queue="mail"} 3.0' in page
    assert 'waystation_jobs_held{product="bullmq",queue="mail"} 2.0' in page
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(LIMIT_S):
        assert await running == 0


async def test_a_command_that_cannot_begin_ends_all(tmp_path: Path) -> None:
    fleet = Fleet([sys.executable, "-c", "import sys; sys.exit(69)"], 3)
    async with asyncio.timeout(LIMIT_S):
        assert await fleet.run(NOTHING_SERVED) == 69


async def test_nobody_stays_when_the_one_that_watches_is_killed(
    command: list[str], tmp_path: Path
) -> None:
    watches = (
        "import asyncio, sys; from waystation.core.app.fleet import Fleet;"
        "from waystation.core.app.settings import TelemetrySettings;"
        f"asyncio.run(Fleet({command!r}, 2).run(TelemetrySettings()))"
    )
    watching = await asyncio.create_subprocess_exec(sys.executable, "-c", watches)
    await until(lambda: len(pids(tmp_path, "started")) == 2)

    watching.kill()
    await watching.wait()

    await until(lambda: pids(tmp_path, "ended") == pids(tmp_path, "started"))

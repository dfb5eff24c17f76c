"""All queues at a glance: `waystation queues` and `waystation top`."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.console.why.scene import Scene, scene_on
from tests.support.patience import LIMIT_S
from waystation import bullmq
from waystation.cli.root import run
from waystation.console.measures import Live, Row
from waystation.console.top import Top, age, ordered, sparkline
from waystation.errors import StoreUnreachable
from waystation.waitingroom import Room, RoomOptions


async def populate(scene: Scene) -> None:
    """One queue of every product."""
    await scene.mail.add_many([bullmq.NewJob("send")] * 3)
    await scene.mail.pause()
    await scene.routing.add("render")
    await scene.file()
    await Room("sale", scene.store).open(RoomOptions())


async def test_every_queue_of_every_product_is_found(redis_url: str, tmp_path: Path) -> None:
    async with scene_on(redis_url, tmp_path) as scene:
        await populate(scene)
        await scene.bullmq_worker(scene.blocks)

        rows = {(row.product, row.name): row for row in await Live(scene.store).rows()}

    assert {product for product, _ in rows} == {"bullmq", "routing", "files", "waitingroom"}
    mail = rows["bullmq", "mail"]
    assert (mail.ready, mail.active, mail.paused, mail.workers) == (3, 0, True, 1)
    assert rows["waitingroom", "sale"].ready == 0


def test_the_command_lists_them(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def prepare() -> None:
        async with scene_on(redis_url, tmp_path) as scene:
            await populate(scene)

    def command(*args: str) -> str:
        with pytest.raises(SystemExit) as ended:
            run(["queues", "--over", "0", *args])
        assert not ended.value.code
        return capsys.readouterr().out

    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.chdir(tmp_path)
    assert command() == ""
    asyncio.run(prepare())

    listed = json.loads(command("--json"))

    assert [each["ready"] for each in listed if each["name"] == "mail"] == [3]
    head, *lines = command().splitlines()
    assert head.split()[:3] == ["product", "name", "waiting"]
    assert any(line.split()[:3] == ["bullmq", "mail", "3"] for line in lines)


async def test_the_screen_shows_sorts_and_explains() -> None:
    shown = [
        Row(product="bullmq", name="mail", ready=5, active=1, recent=[1, 5]),
        Row(product="files", name="high", ready=9, active=0, paused=True),
    ]
    asked: list[tuple[str, str]] = []
    away = False

    async def rows() -> Sequence[Row]:
        if away:
            raise StoreUnreachable("the store is away")
        return shown

    async def explain(product: str, name: str) -> str:
        asked.append((product, name))
        return "Queue mail is at work."

    app: Any = Top(rows, explain, every_s=3600, title="redis://here")
    async with asyncio.timeout(LIMIT_S), app.run_test(size=(140, 24)) as pilot:
        table = app.query_one("DataTable")
        assert [str(cell) for cell in table.get_row_at(0)][:4] == ["bullmq", "mail", "5", "▂█"]
        await pilot.press("s")
        await pilot.pause()
        assert str(table.get_row_at(0)[1]) == "high (paused)"
        await pilot.press("down", "enter")
        await pilot.pause()
        assert asked == [("bullmq", "mail")]
        assert "at work" in str(app.query_one("#why").render())
        away = True
        await pilot.press("r")
        await pilot.pause()
        assert "The store is away" in str(app.query_one("#away").render())
        assert app.query_one("#away").display
        assert table.row_count == 2
        away = False
        await pilot.press("r")
        await pilot.pause()
        assert not app.query_one("#away").display


async def test_the_screen_stays_with_the_queue_that_was_chosen() -> None:
    shown = [Row(product="bullmq", name=name, ready=0, active=0) for name in "abc"]
    asked: list[str] = []

    async def rows() -> Sequence[Row]:
        return shown

    async def explain(product: str, name: str) -> str:
        asked.append(name)
        return f"Queue {name} is at work."

    app: Any = Top(rows, explain, every_s=3600, title="redis://here")
    async with asyncio.timeout(LIMIT_S), app.run_test(size=(140, 24)) as pilot:
        await pilot.press("down", "down")
        shown.insert(0, Row(product="bullmq", name="aa", ready=0, active=0))
        await pilot.press("r")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert asked == ["c"]


def test_rows_are_sorted_by_the_largest_and_drawn_as_bars() -> None:
    few = Row(product="bullmq", name="b", ready=1, active=7)
    many = Row(product="bullmq", name="a", ready=9, active=0)
    assert ordered([few, many], "name") == ordered([few, many], "waiting") == [many, few]
    assert ordered([few, many], "active") == [few, many]
    assert sparkline([0, 4, 8]) == "▁▅█"
    assert sparkline([0, 0]) == ""
    assert sparkline([3, 3, 3]) == "▄▄▄"
    ages = (59.9, 60, 3599, 3660, 90_000)
    assert [age(each) for each in ages] == ["59 s", "1 min", "59 min", "1 h 1 min", "1 d 1 h"]

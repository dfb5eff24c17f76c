"""The file that the console serves for bull-board, in Node and without any package."""

import asyncio
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from tests.console.boards import OLD, TODAY, YESTERDAY, Served, served
from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.wire.install import find_node

ASK = """
const [file, url, patience, queries] = process.argv.slice(1);
const { waystationHistory } = await import(file);
const provider = waystationHistory({ url, patience: Number(patience) });
const answers = JSON.parse(queries).map((query) => provider.getHistory(query).catch(String));
console.log(JSON.stringify(await Promise.all(answers)));
"""
SPAN = {"from": TODAY - timedelta(days=90), "to": TODAY + timedelta(days=1)}


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


async def _ask(console: Served, url: str, *queries: dict[str, Any]) -> list[Any]:
    """What the provider answers in Node."""
    spans = [{"from": _ms(SPAN["from"]), "to": _ms(SPAN["to"]), **each} for each in queries]
    asked = msgspec.json.encode(spans).decode()
    done = await asyncio.to_thread(
        subprocess.run,
        [find_node().program, "--input-type=module", "-e", ASK,
         console.file.as_uri(), url, str(round(LIMIT_S * 1000)), asked],
        capture_output=True, text=True, timeout=2 * LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


def _some(points: list[dict[str, int]] | str) -> dict[int, int]:
    assert not isinstance(points, str), points
    return {each["ts"]: each["value"] for each in points if each["value"]}


async def test_a_board_is_answered_by_day_and_by_hour(redis_url: str, tmp_path: Path) -> None:
    mail = {"queue": "mail", "metric": "completed", "granularity": "day"}
    async with served(redis_url, tmp_path) as console:
        by_day, of_all, failed, by_hour, week, ages = await _ask(
            console,
            console.url,
            mail,
            {"metric": "completed", "granularity": "day"},
            {**mail, "metric": "failed"},
            {**mail, "granularity": "hour"},
            {**mail, "from": _ms(TODAY - timedelta(days=7))},
            {**mail, "metric": "queueage"},
        )
    assert _some(by_day) == {_ms(OLD): 12, _ms(YESTERDAY): 40}
    assert [each["ts"] for each in by_day] == sorted({each["ts"] for each in by_day})
    assert _some(of_all) == {_ms(OLD): 12, _ms(YESTERDAY): 140}
    assert _some(failed) == {_ms(OLD): 1, _ms(YESTERDAY): 2}
    assert _some(by_hour) == {
        _ms(OLD + timedelta(hours=3)): 7,
        _ms(OLD + timedelta(hours=9)): 5,
        _ms(YESTERDAY + timedelta(hours=4)): 40,
    }
    assert _some(week) == {_ms(YESTERDAY): 40}
    assert ages == []


async def test_what_goes_wrong_is_a_sentence(redis_url: str, tmp_path: Path) -> None:
    query = {"metric": "failed", "granularity": "day"}
    away = f"http://127.0.0.1:{free_port()}"
    async with served(redis_url, tmp_path) as console:
        [text] = await _ask(console, away, query)
        assert f"the waystation console at {away} does not answer: " in text
        [text] = await _ask(console, console.url, {**query, "queue": "x" * 600})
        assert "refused: queue may have 512 characters, got 600" in text

"""`waystation room`, run in this process: what it prints and how it ends."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.command import Command
from waystation.core.clock import SystemClock
from waystation.core.operators.operators import Operators
from waystation.core.store.connection import connect


@pytest.fixture
def room(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path, capsys, "room", WAYSTATION_STORE__URL=redis_url)


def test_a_room_is_opened_looked_at_and_steered(room: Command) -> None:
    assert room("open", "{sale}", "--rate", "5", "--seats", "20").stdout == (
        "sale is open, version 1\n"
    )
    assert room("pause", "{sale}").stdout == "paused\n"
    assert room("rate", "{sale}", "7").stdout == "7 per second\n"
    assert room("tell", "{sale}", "Back at noon").returncode == 0
    seen = json.loads(room("status", "{sale}", "--json").stdout)
    assert (seen["status"], seen["rate"], seen["seats"]) == ("paused, open", 7.0, 20)
    assert "waiting            0" in room("status", "{sale}").stdout


def test_a_rate_that_a_room_is_opened_with_ends_the_way_to_another(room: Command) -> None:
    room("open", "sale", "--rate", "5")
    room("rate", "sale", "7", "--ramp", "3600")
    room("open", "sale", "--rate", "3")
    assert json.loads(room("status", "sale", "--json").stdout)["rate"] == 3


def test_a_room_that_nobody_opened_is_not_found(room: Command) -> None:
    for spelled in ("nowhere", "{nowhere}"):
        ended = room("status", spelled)
        assert ended.returncode != 0
        assert "there is no room nowhere; `waystation room open nowhere` opens it" in ended.stderr


def test_a_room_has_one_name_with_and_without_braces(room: Command) -> None:
    room("open", "plain", "--rate", "33", "--seats", "7")
    room("pause", "{plain}")
    for spelled in ("plain", "{plain}"):
        seen = json.loads(room("status", spelled, "--json").stdout)
        assert (seen["status"], seen["rate"], seen["seats"]) == ("paused, open", 33.0, 7)
    assert room("open", "{plain}", "--seats", "8").stdout == "plain is open, version 3\n"


def test_opening_a_room_that_is_open_changes_the_given_options_alone(room: Command) -> None:
    room("open", "sale", "--rate", "5", "--seats", "20", "--return-host", "shop.example")
    room("pause", "sale")
    assert room("open", "sale", "--waiting-page", "always").returncode == 0
    seen = json.loads(room("status", "sale", "--json").stdout)
    assert (seen["status"], seen["rate"], seen["seats"]) == ("paused, open", 5.0, 20)
    assert seen["return hosts"] == "shop.example"
    room("shut", "sale")
    room("open", "sale")
    assert json.loads(room("status", "sale", "--json").stdout)["status"] == "active, open"


def test_all_rooms_are_listed(room: Command) -> None:
    assert room("list").stdout == ""
    room("open", "sale", "--rate", "5", "--seats", "20")
    room("open", "gala")
    room("pause", "gala")
    one, two = (" ".join(line.split()) for line in room("list").stdout.splitlines())
    assert one == "gala paused, open 0 waiting, 0 of 1,000 inside, 10/s"
    assert two == "sale active, open 0 waiting, 0 of 20 inside, 5/s"
    shown = json.loads(room("list", "--json").stdout)
    assert [each["room"] for each in shown] == ["gala", "sale"]


def test_a_return_host_is_a_host_and_nothing_more(room: Command) -> None:
    ended = room("open", "sale", "--return-host", "https://shop.example/")
    assert "return_hosts must be hosts such as shop.example" in ended.stderr
    assert room("status", "sale").returncode != 0


def test_a_draw_is_made_written_down_and_checked(room: Command, tmp_path: Path) -> None:
    room("open", "{sale}")
    assert "commitment" in room("schedule", "{sale}", "2030-01-01T10:00:00", "--by-lot").stdout
    assert room("draw", "{sale}", "--beacon", "b").stdout == "0 drawn\n"
    assert room("proof", "{sale}", "proof.json").stdout == "0 ids in proof.json\n"
    assert room("check", "proof.json").stdout == "0 drawn as the seed says\n"
    kept = json.loads((tmp_path / "proof.json").read_text())
    kept["proof"]["seed"] = "00" * 32
    (tmp_path / "proof.json").write_text(json.dumps(kept))
    assert "committed" in room("check", "proof.json").stderr
    for text in ("no JSON", "[]", '{"proof": {}, "drawn": 3}', '{"drawn": []}'):
        (tmp_path / "proof.json").write_text(text)
        assert "proof.json must be a proof" in room("check", "proof.json").stderr
    assert "nothing.json must be a proof" in room("check", "nothing.json").stderr


def test_codes_are_handed_out_counted_and_taken_back(room: Command) -> None:
    room("open", "{sale}")
    made = room("codes", "make", "{sale}", "press", "--count", "3", "--lane", "vip", "--uses", "2")
    assert len(set(made.stdout.split())) == 3
    assert room("codes", "list", "{sale}").stdout.split(maxsplit=2) == [
        "press",
        "vip",
        "0 of 6 used, for good\n",
    ]
    (batch,) = json.loads(room("codes", "list", "{sale}", "--json").stdout)
    assert (batch["codes"], batch["lane"], batch["uses"]) == (3, 2, 2)
    assert room("codes", "revoke", "{sale}", "press").stdout == "3 codes open nothing any more\n"
    assert room("codes", "list", "{sale}").stdout == ""
    assert "there is no batch press" in room("codes", "revoke", "{sale}", "press").stderr


def test_events_are_planned_listed_and_called_off(room: Command) -> None:
    room("open", "{sale}", "--rate", "5")
    noon, two = "2030-01-01T12:00:00", "2030-01-01T14:00:00"
    gathering = ("--gather", "2030-01-01T11:30:00", "--by-lot", "--name", "Presale")
    gathering += ("--witness", "ab" * 32)
    wrong = room("events", "plan", "{sale}", noon, two, *gathering[:-1], "x")
    assert "64 small hex digits" in wrong.stderr
    made = room("events", "plan", "{sale}", noon, two, *gathering, "--rate", "9")
    id = made.stdout.strip()
    output = room("events", "list", "{sale}").stdout
    assert output.startswith(f"{id}  20")
    assert output.endswith(")  Presale\n")
    assert ", by lot (commitment " in output
    (event,) = json.loads(room("events", "list", "{sale}", "--json").stdout)
    assert (event["changes"], event["witness"]) == ({"admission_rate": "9"}, "ab" * 32)
    assert "the draw has no witness" in room("events", "reveal", "{sale}", "cd" * 32).stderr
    assert not event["on"]
    assert "there is 'Presale' already" in room("events", "plan", "{sale}", noon, two).stderr
    assert room("events", "cancel", "{sale}", id).stdout == "called off\n"
    assert room("events", "cancel", "{sale}", id).returncode != 0


def test_webhooks_are_added_listed_and_removed(room: Command) -> None:
    room("open", "{sale}")
    made = room("webhooks", "add", "{sale}", "https://shop.example/room", "--event", "admitted")
    lines = dict(line.split(maxsplit=1) for line in made.stdout.splitlines())
    assert lines["events"] == "admitted"
    assert lines["secret"].startswith("whs_")
    output = room("webhooks", "list", "{sale}").stdout
    assert output == f"{lines['id']}  https://shop.example/room  0 delivered\n"
    assert lines["secret"] not in room("webhooks", "list", "{sale}", "--json").stdout
    assert room("webhooks", "remove", "{sale}", lines["id"]).stdout == "removed\n"
    assert room("webhooks", "list", "{sale}").stdout == ""


async def test_whatever_a_shell_does_to_a_room_is_written_down(
    room: Command, redis_url: str
) -> None:
    def work() -> None:
        for line in (
            "open {sale} --rate 5", "pause {sale}", "resume {sale}", "queue-all {sale}",
            "drain {sale}", "rate {sale} 7", "alarm {sale} --waiting 9", "tell {sale} hello",
            "admit {sale} 3",
            "codes make {sale} press", "codes revoke {sale} press",
            "schedule {sale} 2030-01-01T10:00", "draw {sale}",
            "webhooks add {sale} https://shop.example/room", "shut {sale}", "key alice",
        ):  # fmt: skip
            assert room(*line.split()).returncode == 0, line
        for line in ("status {sale}", "codes list {sale}", "codes revoke {sale} press"):
            room(*line.split())

    await asyncio.to_thread(work)
    async with await connect(redis_url) as store:
        entries = (await Operators(store, SystemClock()).audit(100)).entries
    actions = [(each["action"], each["queue"]) for each in reversed(entries)]
    assert actions == [
        *((action, "sale") for action in (
            "open", "pause", "resume", "queue-all", "drain", "rate", "alarms", "message", "admit",
            "make-codes", "revoke-codes", "schedule", "draw", "add-webhook", "close",
        )),
        ("issue-key", ""),
    ]  # fmt: skip
    assert all(" in a shell on " in each["who"] for each in entries)
    (rate,) = (each for each in entries if each["action"] == "rate")
    assert json.loads(rate["before"])["admission_rate"] == "5"
    assert json.loads(rate["after"])["admission_rate"] == "7"


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        (("codes", "make", "{sale}", "press", "--lane", "fast"), "lane must be one of normal"),
        (("codes", "make", "{sale}", "no good"), "a batch must be"),
        (("codes", "list", "{nowhere}"), "there is no room nowhere"),
        (("status", "no good"), "a room's name must be 1 to 64 of A-Z a-z 0-9 _ . -"),
        (("open", "{sale}s"), "a room's name must be 1 to 64 of A-Z a-z 0-9 _ . -"),
        (("events", "plan", "{sale}", "2030-01-02", "2030-01-01"), "start before it ends"),
        (("webhooks", "add", "{sale}", "http://shop.example"), "must start with https://"),
        (("webhooks", "add", "{sale}", "https://a.example", "--event", "all"), "no events all"),
        (("webhooks", "remove", "{sale}", "nobody"), "there is no such webhook"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    room: Command, args: tuple[str, ...], wrong: str
) -> None:
    room("open", "{sale}")
    ended = room(*args)
    assert ended.returncode != 0
    assert wrong in ended.stderr
    assert len(ended.stderr.splitlines()) == 1

"""What happened, for people and for spreadsheets."""

import csv
import io

import pytest

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.clock import HandClock
from waystation.core.operators.roles import Role
from waystation.waitingroom.http import admin_access, admin_rooms
from waystation.waitingroom.operating.history import History, percentile

ROOT = f"/api/v1/admin/queues/{QUEUE}"


async def test_a_day_is_told_hour_by_hour(redis_url: str) -> None:
    clock = HandClock()
    async with harness.service(redis_url, clock=clock) as service:
        viewer = await service.operator("viewer")
        await service.visitor("10.0.0.1").join()
        await clock.advance(90)
        await service.admission.admit_now(1)
        await clock.advance(3600)
        await service.visitor("10.0.0.2").join()
        hours = (await viewer.get(f"{ROOT}/analytics?hours=2")).json()["hours"]
        assert [hour["enqueued"] for hour in hours] == [1, 1]
        assert (hours[0]["admitted"], hours[0]["wait_p50_s"]) == (1, 91)
        assert len((await viewer.get(f"{ROOT}/analytics")).json()["hours"]) == 24
        for wrong in ("0", "25", "x", "1e3", "-1", "\u0663"):
            answer = await viewer.get(f"{ROOT}/analytics", params={"hours": wrong})
            assert answer.status_code == 422


async def test_lists_that_are_cut_say_how_many_there_are(
    service: RoomService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_rooms, "MOST_LISTED", 1)
    monkeypatch.setattr(admin_access, "MOST_ENTRIES", 1)
    admin = await service.operator()
    for number in range(2):
        await service.visitor(f"10.0.0.{number}").enter()
    found = (await admin.get(f"{ROOT}/sessions")).json()
    assert (len(found["sessions"]), found["total"]) == (1, 2)
    for _ in range(2):
        await admin.post(f"{ROOT}/pause")
    await admin.post("/api/v1/admin/queues", {"id": "other"})
    for asked, action, total in (("", "create", 3), (f"?queue={QUEUE}", "pause", 2)):
        found = (await admin.get(f"/api/v1/admin/audit{asked}")).json()
        assert [each["action"] for each in found["entries"]] == [action]
        assert found["total"] == total


async def test_a_day_is_there_minute_by_minute(redis_url: str) -> None:
    clock = HandClock()
    async with harness.service(redis_url, clock=clock) as service:
        viewer = await service.operator("viewer")
        for number in range(3):
            await History(service.room).note()
            await clock.advance(60)
            await service.visitor(f"10.0.0.{number}").join()
        minutes = (await viewer.get(f"{ROOT}/history")).json()["minutes"]
        assert [(each["waiting"], each["arrivals"]) for each in minutes] == [(1, 1), (2, 1)]
        assert len((await viewer.get(f"{ROOT}/history?minutes=1")).json()["minutes"]) == 1
        for wrong in ("0", "1441", "x", "-1"):
            answer = await viewer.get(f"{ROOT}/history", params={"minutes": wrong})
            assert answer.status_code == 422


async def test_the_same_is_a_file_for_a_spreadsheet(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    await service.visitor().join()
    saved = await viewer.get(f"{ROOT}/export?hours=1")
    assert saved.headers["content-type"].startswith("text/csv")
    assert saved.headers["content-disposition"] == 'attachment; filename="shop-hours.csv"'
    [row] = csv.DictReader(io.StringIO(saved.text))
    assert (row["enqueued"], row["wait_p50_s"]) == ("1", "")


@pytest.mark.parametrize(
    "evil", ['=HYPERLINK("https://evil.test")', "+1", "-1+1", "@SUM(A1)", "\t=1", "a\r\nb,c"]
)
async def test_42_nothing_in_an_export_is_run_or_breaks_out_of_its_cell(
    service: RoomService, evil: str
) -> None:
    admin = await service.operator()
    printable = evil.strip() if evil.isprintable() else f"@{evil.strip()[:1]}"
    key = await service.app.operators.issue(printable, Role.ADMIN)
    other = service.visitor(authorization=f"Bearer {key}")
    await other.post(f"{ROOT}/message", {"text": {"en": evil}})
    saved = await admin.get("/api/v1/admin/audit/export")
    rows = list(csv.DictReader(io.StringIO(saved.text, newline="")))
    assert [row["action"] for row in rows] == ["message"]
    assert not rows[0]["who"].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert len(saved.text.splitlines()) == 2


def test_percentiles_are_those_of_the_buckets() -> None:
    kept = {"wait_le_2": 50, "wait_le_91": 45, "wait_le_1024": 5, "total_left": 9}
    assert [percentile(kept, share) for share in (0.5, 0.9, 0.99)] == [2, 91, 1024]
    assert percentile({}, 0.5) is None

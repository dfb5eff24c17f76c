"""The OpenAPI document says what the endpoints do, and they do what it says."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.size import size
from tests.waitingroom.http import harness, scene
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.http.endpoints import declared
from waystation.core.http.server import serving
from waystation.waitingroom.http.app import PARTS

PROGRAM = Path(sys.executable).with_name("schemathesis")
PHASES = size("examples,coverage", full="examples,coverage,fuzzing")
EXAMPLES = 10


async def test_every_endpoint_is_described(service: RoomService) -> None:
    described = (await service.visitor().get("/openapi.json")).json()
    said = {(m.upper(), path) for path, each in described["paths"].items() for m in each}
    assert said == {(e.method, e.path) for e in service.app.table if e.group != "pages"}
    listed = {(e.method, e.path) for part in PARTS.values() for k in part for e, _ in declared(k)}
    assert listed == {(e.method, e.path) for e in service.app.table}
    ids = [o["operationId"] for each in described["paths"].values() for o in each.values()]
    assert len(ids) == len(set(ids))


async def test_a_number_in_a_query_is_what_it_was_checked_as(service: RoomService) -> None:
    admin = await service.operator()
    described = (await admin.get("/openapi.json")).json()["paths"]
    tried = 0
    for path, verbs in described.items():
        for parameter in verbs.get("get", {}).get("parameters", []):
            bounds = parameter["schema"]
            if parameter["in"] != "query" or bounds.get("type") != "integer":
                continue
            most = bounds["maximum"]
            for text in (
                f"{1:05}{most}",
                "1" * 30,
                "0" * 30 + "1",
                f"{most + 1}",
                "-1",
                "1e1",
                "٣",
            ):
                got = await admin.get(path.replace("{id}", QUEUE), params={parameter["name"]: text})
                assert got.status_code in (400, 422), (path, text)
                tried += 1
    assert tried


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("group", ["visitor", "sessions", "connectors", "admin", "operations"])
async def test_made_up_requests_find_nothing(redis_url: str, tmp_path: Path, group: str) -> None:
    """Schemathesis asks whatever the document allows, and what it does not, of every operation."""
    async with harness.service(redis_url, scene.OPTIONS, newcomers_per_minute=0) as service:
        stage = scene.Scene(service, tmp_path)
        await stage.set()
        (tmp_path / "openapi.json").write_text(json.dumps(stage.document()))
        (tmp_path / "schemathesis.toml").write_text(_allowances())
        port = free_port()
        shown = [f"{name}: {value}" for name, value in stage.headers[group].items()]
        async with serving(stage, host="127.0.0.1", port=port):
            process = await asyncio.create_subprocess_exec(
                PROGRAM, "run", "openapi.json", "--url", f"http://127.0.0.1:{port}",
                "--include-tag", group, "--max-examples", str(EXAMPLES), "--no-color",
                "--phases", PHASES, "--seed", "7",
                "--generation-deterministic",
                "--suppress-health-check", "all",
                *(part for each in shown for part in ("--header", each)),
                cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            described, _ = await process.communicate()
    assert process.returncode == 0, described.decode()[-12000:]
    asked = {f"{e.method} {e.path}" for e in stage.app.table if e.group == group}
    refused = {each for each in asked if 429 in stage.answers[each]}
    assert refused == set(), "the limits were tested instead of the operations"
    answered = {each for each in asked if any(200 <= s < 300 for s in stage.answers[each])}
    assert sorted(asked - answered) == [], {e: dict(stage.answers[e]) for e in asked - answered}


# What may be said here depends on more than a schema can tell.
DEPENDS = {
    "POST /api/v1/queues/{id}/enqueue": "a target is safe however often it is decoded",
    "POST /v1/redeem": "a token was made here",
    "POST /api/v1/queues/{id}/claim": "a return address was sealed here",
    "POST /api/v1/admin/queues": "a setting depends on others",
    "PATCH /api/v1/admin/queues/{id}": "a setting depends on others",
    "POST /api/v1/admin/queues/{id}/events": "an event starts before it ends",
    "POST /api/v1/admin/queues/{id}/webhooks": "a webhook leads outside",
    "PUT /api/v1/admin/queues/{id}/page": "a colour can be read on white",
    "POST /api/v1/admin/queues/{id}/page/preview": "a colour can be read on white",
    "POST /api/v1/admin/operators": "a name can be printed",
    "PUT /api/v1/admin/queues/{id}/alarms": "1.0 is not written as a whole number",
    "POST /api/v1/admin/queues/{id}/admit": "1.0 is not written as a whole number",
    "POST /api/v1/admin/queues/{id}/codes": "1.0 is not written as a whole number",
}


def _allowances() -> str:
    """The settings that let these operations refuse what the document allows."""
    refuses = ["400", "401", "403", "404", "405", "409", "413", "415", "422", "5xx"]
    return f"[checks.negative_data_rejection]\nexpected-statuses = {refuses}\n" + "\n".join(
        f'# {why}\n[[operations]]\ninclude-name = "{name}"\n'
        "checks.positive_data_acceptance.enabled = false\n"
        for name, why in DEPENDS.items()
    )

"""The OpenAPI document says what the doors do, and the doors do what it says."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.interfaces.api.hands import QUEUE, House
from tests.support.ports import free_port
from waystation.interfaces.api.http.endpoints import declared
from waystation.interfaces.api.reference import PARTS
from waystation.interfaces.api.server import serving

PROGRAM = Path(sys.executable).with_name("schemathesis")
EXAMPLES = 10


async def test_every_endpoint_is_described(house: House) -> None:
    told = (await house.visitor().get("/openapi.json")).json()
    said = {(m.upper(), path) for path, each in told["paths"].items() for m in each}
    assert said == {(e.method, e.path) for e in house.app.table if e.group != "pages"}
    listed = {(e.method, e.path) for part in PARTS.values() for k in part for e, _ in declared(k)}
    assert listed == {(e.method, e.path) for e in house.app.table}
    ids = [o["operationId"] for each in told["paths"].values() for o in each.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
@pytest.mark.parametrize("group", ["visitor", "sessions", "connectors", "admin", "operations"])
async def test_made_up_requests_find_nothing(house: House, tmp_path: Path, group: str) -> None:
    """Schemathesis asks whatever the document allows, and what it does not."""
    shown = ""
    if group == "visitor":
        shown = (await house.visitor().join())["token"]
    if group == "admin":
        key = (await house.operator()).http.headers["authorization"]
        shown = key.partition(" ")[2]
    port = free_port()
    async with serving(house.app, host="127.0.0.1", port=port):
        command = [
            "run", _document(house, tmp_path), "--url", f"http://127.0.0.1:{port}",
            "--include-tag", group, "--max-examples", str(EXAMPLES), "--no-color",
            "--phases", "examples,coverage,fuzzing", "--seed", "7", "--generation-database", "none",
            "--suppress-health-check", "all", "--exclude-path-regex", "/events$",
            # What a setting may be depends on other settings, which no schema can say.
            "--exclude-checks", "positive_data_acceptance",
            # A room made up on the way would be one that the document does not name.
            "--exclude-path", "/api/v1/admin/queues",
            # Made-up keys are guesses, and whoever guesses is soon told to wait.
            "--exclude-path", "/api/v1/admin/sign-in",
            # Whoever asks for a second factor has to show it from then on.
            "--exclude-path", "/api/v1/admin/sign-in/second-factor",
            *(("--header", f"Authorization: Bearer {shown}") if shown else ()),
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            PROGRAM, *command, cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()[-6000:]


def _document(house: House, folder: Path) -> str:
    """The document with the one room there is, so that requests get somewhere."""
    told = json.loads(house.app.described)
    for path in told["paths"].values():
        for operation in path.values():
            for each in operation["parameters"]:
                if each["name"] == "id":
                    each["schema"] = {"type": "string", "enum": [QUEUE]}
    (folder / "openapi.json").write_text(json.dumps(told))
    return "openapi.json"

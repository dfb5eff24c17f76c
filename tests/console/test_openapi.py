"""The OpenAPI document and the reference say what the console answers."""

from tests.console.harness import ConsoleApi
from waystation.console.app import PARTS
from waystation.core.http.endpoints import declared


async def test_every_endpoint_is_described(api: ConsoleApi) -> None:
    document = (await api.here.get("/openapi.json")).json()
    said = {(m.upper(), path) for path, each in document["paths"].items() for m in each}
    assert said == {(e.method, e.path) for e in api.app.table if e.group != "pages"}
    listed = {(e.method, e.path) for part in PARTS.values() for k in part for e, _ in declared(k)}
    assert listed == {(e.method, e.path) for e in api.app.table}
    ids = [o["operationId"] for each in document["paths"].values() for o in each.values()]
    assert len(ids) == len(set(ids))

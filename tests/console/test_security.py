"""Who may look, who may act, and who is refused."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest

from tests.console import harness
from tests.console.harness import ConsoleApi
from waystation.bullmq import FlowNode, FlowProducer, Queue
from waystation.console.actions.kinds import ACTIONS
from waystation.console.actions.taking import CHANGES
from waystation.console.options import ConsoleOptions
from waystation.console.routes import rooms
from waystation.console.serving import require_safe
from waystation.console.settings import ConsoleSettings
from waystation.core.errors import InvalidSetting
from waystation.core.http.endpoints import Endpoint

OPEN = {
    "GET /", "GET /assets/{file}", "GET /assets/views/{file}", "GET /openapi.json",
    "GET /healthz", "GET /readyz",
    "GET /api/v1/sign-in", "GET /sign-in/provider", "GET /sign-in/callback",
    "POST /api/v1/admin/sign-in", "DELETE /api/v1/admin/sign-in",
}  # fmt: skip
"""What needs no key, and shows nothing."""
ROLES = ("viewer", "operator", "admin")
NEEDS = {
    "/api/v1/queues/{product}/{queue}/actions/{action}": {n: a.scope for n, a in ACTIONS.items()},
    "/api/v1/rooms/{room}/actions/{action}": dict.fromkeys(rooms.STEPS, "operator"),
    "/api/v1/search/actions/{action}": dict.fromkeys(CHANGES, "operator"),
}
"""The role that each action needs, by the path that takes it."""


def _path(endpoint: Endpoint, **slots: str) -> str:
    known = {"product": "bullmq", "queue": "mail", "id": "1", "action": "pause", "room": "shop",
             "name": "x", "file": "main.js", **slots}  # fmt: skip
    path = endpoint.path
    for name, value in known.items():
        path = path.replace(f"{{{name}}}", value)
    return path


async def _ask(client: httpx2.AsyncClient, endpoint: Endpoint, **slots: str) -> httpx2.Response:
    body: Any = {"name": "send", "group": "0", "key": "0"} if endpoint.takes else None
    return await client.request(endpoint.method, _path(endpoint, **slots), json=body)


@pytest.fixture
async def mail(redis_url: str, no_strays: None) -> Any:
    async with Queue("mail", redis_url) as queue:
        await queue.add("send", {})
        yield queue


async def test_without_a_key_nothing_is_shown(mail: Queue, guarded: ConsoleApi) -> None:
    stranger = guarded.person("10.9.9.9", "console.test")
    asked = [each for each in guarded.app.table if f"{each.method} {each.path}" not in OPEN]
    for endpoint in asked:
        assert (await _ask(stranger, endpoint)).status_code == 401, endpoint.path
    assert {f"{e.method} {e.path}" for e in guarded.app.table} >= OPEN


def _cases(table: Iterable[Endpoint]) -> Iterator[tuple[Endpoint, str, str]]:
    """Every endpoint that asks for a role, with each action that it takes, and the role."""
    for endpoint in table:
        if f"{endpoint.method} {endpoint.path}" in OPEN:
            continue
        if "{action}" not in endpoint.path:
            yield endpoint, "", str(endpoint.scope)
            continue
        for action, scope in NEEDS[endpoint.path].items():
            yield endpoint, action, scope


async def test_whatever_is_described_asks_for_a_role_and_changes_need_more_than_a_viewer(
    guarded: ConsoleApi,
) -> None:
    described = (await guarded.here.get("/openapi.json")).json()["paths"]
    names = {f"{m.upper()} {path}" for path, each in described.items() for m in each}
    scopes = {f"{each.method} {each.path}": each.scope for each in guarded.app.table}
    assert {name for name in scopes if name.partition(" ")[2].startswith("/api/")} <= names
    assert names <= set(scopes)
    assert {name for name, scope in scopes.items() if scope not in ROLES} == OPEN
    changing = {name for name in scopes if not name.startswith("GET ")} - OPEN
    assert {name for name in changing if scopes[name] not in ("operator", "admin")} == set()


@pytest.mark.parametrize("role", ROLES)
async def test_every_role_is_refused_exactly_what_is_above_it(redis_url: str, role: str) -> None:
    # Of a queue and a room that are not there, so that what is allowed changes nothing.
    away = {"queue": "nowhere", "room": "nowhere", "id": "x", "name": "nobody"}
    options = msgspec.structs.replace(harness.SIGN_IN, streams=0)
    async with harness.api(redis_url, options) as api:
        person = await api.operator(role)
        wrong: list[str] = []
        for endpoint, action, scope in _cases(api.app.table):
            answer = await _ask(person, endpoint, action=action, **away)
            refused = answer.status_code in (401, 403)
            if refused != (ROLES.index(role) < ROLES.index(scope)):
                wrong.append(f"{endpoint.method} {endpoint.path} {action}: {answer.status_code}")
        assert wrong == []


async def test_a_viewer_changes_nothing_whatever_they_ask(mail: Queue, guarded: ConsoleApi) -> None:
    viewer = await guarded.operator("viewer")
    for endpoint, action, _ in _cases(guarded.app.table):
        if endpoint.method != "GET":
            answer = await _ask(viewer, endpoint, action=action)
            assert answer.status_code == 403, (endpoint.path, action, answer.text)
    assert (await mail.counts())["waiting"] == 1
    page = (await viewer.get("/api/v1/queues/bullmq/mail")).json()
    assert page["actions"] == []
    assert (await viewer.get("/api/v1/queues/bullmq/mail/jobs/1")).json()["actions"] == []


async def test_an_operator_is_refused_what_needs_an_admin(mail: Queue, guarded: ConsoleApi) -> None:
    operator = await guarded.operator("operator")
    place = "/api/v1/queues/bullmq/mail/actions"
    for name, action in ACTIONS.items():
        answer = await operator.post(f"{place}/{name}", json={"dry_run": True, "scheduler": "x"})
        assert (answer.status_code == 403) is (action.scope == "admin"), (name, answer.text)


async def test_a_key_for_one_queue_opens_no_other(mail: Queue, guarded: ConsoleApi) -> None:
    async with Queue("bills", guarded.store) as bills:
        await bills.add("bill", {})
        limited = await guarded.operator("operator", ["bullmq/mail"])
        assert (await limited.get("/api/v1/queues/bullmq/mail")).status_code == 200
        assert (await limited.get("/api/v1/queues/bullmq/bills")).status_code == 403
        for path in ("search?q=x", "failures", "failures?product=bullmq&queue=bills"):
            refused = await limited.get(f"/api/v1/{path}")
            assert refused.status_code == 403
            assert "a key for operator of bullmq/mail alone does not" in refused.json()["detail"]
        # What whoever signs in sees first has the queues of the key.
        overview = (await limited.get("/api/v1/overview")).json()
        assert [each["name"] for each in overview["queues"]] == ["mail"]
        connector = await guarded.operator("connector", ["bullmq/mail"])
        assert (await connector.get("/api/v1/overview")).status_code == 403


async def test_a_flow_shows_a_limited_key_no_jobs_of_other_queues(
    mail: Queue, guarded: ConsoleApi
) -> None:
    children = [FlowNode(name=name, queue=name) for name in ("mail", "bills")]
    flow = await FlowProducer(guarded.store).add(
        FlowNode(name="parent", queue="mail", children=children)
    )
    path = f"/api/v1/queues/bullmq/mail/jobs/{flow.job.id}/flow"
    seen = {}
    for queues in (None, ["bullmq/mail"]):
        answer = await (await guarded.operator("viewer", queues)).get(path)
        seen[bool(queues)] = {each["queue"] for each in answer.json()["children"]}
    assert seen == {False: {"mail", "bills"}, True: {"mail"}}


@pytest.mark.parametrize(
    ("address", "host", "headers"),
    [
        ("10.0.0.7", "localhost:8090", {}),
        ("127.0.0.1", "evil.test:8090", {}),
        ("127.0.0.1", "localhost.evil.test", {}),
        ("127.0.0.1", "localhost:8090", {"x-forwarded-for": "127.0.0.1"}),
        ("127.0.0.1", "localhost:8090", {"via": "1.1 proxy"}),
    ],
)
async def test_without_a_sign_in_only_this_machine_is_answered(
    mail: Queue, api: ConsoleApi, address: str, host: str, headers: dict[str, str]
) -> None:
    other = api.person(address, host, **headers)
    for path in ("overview", "queues/bullmq/mail", "search?q=x"):
        assert (await other.get(f"/api/v1/{path}")).status_code == 403
    refused = await other.post("/api/v1/queues/bullmq/mail/actions/pause", json={})
    assert refused.status_code == 403
    assert not await mail.is_paused()


async def test_without_more_being_said_this_machine_only_looks(mail: Queue, redis_url: str) -> None:
    async with harness.api(redis_url, ConsoleOptions()) as api:
        assert (await api.get("session"))["role"] == "viewer"
        refused = await api.post("queues/bullmq/mail/actions/pause", status=403)
        assert "--role operator allows it" in refused["detail"]
    assert not await mail.is_paused()


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.test"},
    ],
)
async def test_the_page_of_another_site_changes_nothing(
    mail: Queue, api: ConsoleApi, headers: dict[str, str]
) -> None:
    for endpoint in api.app.table:
        if endpoint.method in ("POST", "DELETE"):
            path = _path(endpoint)
            answer = await api.here.request(endpoint.method, path, json={}, headers=headers)
            assert answer.status_code in (401, 403), path
    assert not await mail.is_paused()


async def test_looking_never_changes_anything(mail: Queue, api: ConsoleApi) -> None:
    for endpoint in api.app.table:
        if endpoint.method in ("POST", "DELETE"):
            answer = await api.here.get(_path(endpoint, action="pause"))
            assert answer.status_code in (200, 401, 404, 405), endpoint.path
    assert not await mail.is_paused()


@pytest.mark.parametrize(
    "query",
    ["limit=1000000000", "limit=0", "limit=-1", "limit=1e3", "limit=²", "offset=99999999999999",
     "state=everything", "order=random", "limit="],
)  # fmt: skip
async def test_parameters_have_bounds(mail: Queue, api: ConsoleApi, query: str) -> None:
    answer = await api.here.get(f"/api/v1/queues/bullmq/mail/jobs?{query}")
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "name", ["a:b", "mail:meta", "...", "\0", "x" * 600, "*", "mail\r\nX: y", "{mail}", "é\ud800"]
)
async def test_a_name_that_is_no_queue_is_not_found(
    mail: Queue, api: ConsoleApi, name: str
) -> None:
    quoted = quote(name.encode("utf-8", "surrogatepass"), safe="")
    answer = await api.here.get(f"/api/v1/queues/bullmq/{quoted}")
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b'{"dry_run": "yes"}', 400),
        (b'{"unknown": 1}', 400),
        (b'{"ids": ["%s"]}' % (b"x" * 300_000), 413),
        (b'{"ids": [%s]}' % b",".join([b'"1"'] * 1001), 422),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused(
    mail: Queue, api: ConsoleApi, body: bytes, status: int
) -> None:
    headers = {"content-type": "application/json"}
    place = "/api/v1/queues/bullmq/mail/actions/retry"
    answer = await api.here.post(place, content=body, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    other = await api.here.post(place, content=b"{}", headers={"content-type": "text/plain"})
    assert other.status_code == 415


async def test_wrong_keys_are_slowed_down(redis_url: str, no_strays: None) -> None:
    async with harness.api(redis_url, ConsoleOptions(sign_in=True)) as api:
        guesser = api.person("10.6.6.6", "console.test", authorization="Bearer wrk_guess")
        found = [(await guesser.get("/api/v1/overview")).status_code for _ in range(15)]
    assert found[0] == 401
    assert found[-1] == 429


async def test_a_sign_in_is_a_cookie_that_no_other_site_can_use(
    mail: Queue, guarded: ConsoleApi
) -> None:
    key = await guarded.app.console.operators.issue("anna", harness.Role.OPERATOR)
    browser = guarded.person("10.1.1.1", "console.test")
    signed = await browser.post("/api/v1/admin/sign-in", json={"key": key})
    cookie = signed.headers["set-cookie"]
    for flag in ("__Host-wsc_o=", "HttpOnly", "SameSite=Strict", "Secure", "Path=/"):
        assert flag in cookie
    shown = {"cookie": cookie.partition(";")[0]}
    assert (await browser.get("/api/v1/session", headers=shown)).json()["name"] == "anna"
    place = "/api/v1/queues/bullmq/mail/actions/pause"
    foreign = await browser.post(place, json={}, headers={**shown, "sec-fetch-site": "cross-site"})
    assert foreign.status_code == 403
    assert not await mail.is_paused()
    assert (await browser.post(place, json={}, headers=shown)).status_code == 200
    assert await mail.is_paused()
    await mail.resume()


async def test_whatever_is_done_is_written_down(mail: Queue, guarded: ConsoleApi) -> None:
    operator = await guarded.operator("operator")
    place = "/api/v1/queues/bullmq/mail/actions"
    await operator.post(f"{place}/promote-all", json={"dry_run": True})
    await operator.post(f"{place}/promote-all", json={"reason": "night shift"})
    entries = (await operator.get("/api/v1/audit")).json()["entries"]
    [done] = [each for each in entries if each["action"] == "promote-all"]
    assert (done["who"], done["queue"]) == ("a operator", "bullmq/mail")
    assert "night shift" in done["after"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "console.example.com"])
def test_other_machines_are_not_served_without_a_sign_in(host: str) -> None:
    with pytest.raises(InvalidSetting, match="sign_in"):
        require_safe(ConsoleSettings(host=host))
    require_safe(ConsoleSettings(host=host, sign_in=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_this_machine_is_served_without_one(host: str) -> None:
    require_safe(ConsoleSettings(host=host))


async def test_the_page_may_run_only_what_is_its_own(api: ConsoleApi) -> None:
    page = await api.here.get("/")
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert page.headers["x-frame-options"] == "DENY"
    for name in ("../app.py", "..%2fapp.py", "index.html", "nothing.js", ""):
        assert (await api.here.get(f"/assets/{name}")).status_code == 404


async def test_a_stream_ends_when_its_reader_leaves_and_there_are_only_so_many(
    mail: Queue, redis_url: str
) -> None:
    async with harness.api(redis_url, ConsoleOptions(streams=0)) as api:
        for path in ("live", "queues/bullmq/mail/live"):
            assert (await api.here.get(f"/api/v1/{path}")).status_code == 204
    await asyncio.sleep(0)

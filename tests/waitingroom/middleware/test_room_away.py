"""What a connector does while the room is away: what its operator wants, and not for ever."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.waitingroom.http.harness import QUEUE
from tests.waitingroom.middleware.shop import OPTIONS, PAGE, Shop
from waystation.core.clock import HandClock
from waystation.core.errors import InvalidOption, StoreUnreachable
from waystation.core.http.server import serving
from waystation.waitingroom.middleware import connector
from waystation.waitingroom.middleware.gate import CONFIG, SESSION, Gate, GateOptions
from waystation.waitingroom.middleware.link import AGAIN_S, AWAY_AFTER, Link, http_fetch

OPEN = GateOptions(rules=OPTIONS.rules, fail="open", open_at_most=60, grace=120)
ROOM = f"/api/v1/admin/queues/{QUEUE}"


async def _away(shop: Shop) -> None:
    shop.away = True
    for _ in range(AWAY_AFTER):
        await shop.look_again()


async def test_a_room_that_never_answered_lets_in_whom_the_policy_lets(
    shop: Shop, clock: HandClock
) -> None:
    shop.away = True
    closed = await shop.http.get("/checkout", headers=PAGE)
    assert (closed.status_code, closed.headers["retry-after"]) == (503, "5")
    assert closed.headers["refresh"] == "5"
    other = Shop(shop.service, clock, OPEN)
    other.away = True
    assert (await other.http.get("/checkout", headers=PAGE)).status_code == 200
    await other.http.aclose()


async def test_the_log_says_why_the_room_is_away_and_when_it_is_back(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.away = True
    await shop.http.get("/checkout", headers=PAGE)
    shop.away = False
    await shop.look_again()
    ours = [each for each in caplog.records if each.name == "waystation.waitingroom.middleware"]
    assert [each.getMessage() for each in ours] == [
        "the waiting room does not answer: away",
        "the waiting room answers again",
    ]


async def test_28_one_silence_changes_nothing_and_several_do(shop: Shop) -> None:
    await shop.look_again()
    shop.away = True
    await shop.look_again()
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 303
    await _away(shop)
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 503
    assert (await shop.http.get("/", headers=PAGE)).status_code == 200
    shop.away = False
    await shop.look_again()
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 303


async def test_28_letting_everybody_in_ends_by_itself(shop: Shop, clock: HandClock) -> None:
    other = Shop(shop.service, clock, OPEN)
    await other.look_again()
    await _away(other)
    assert (await other.http.post("/checkout")).status_code == 200
    await clock.advance(61)
    assert (await other.http.post("/checkout")).status_code == 503
    await other.http.aclose()


async def test_those_inside_stay_inside_for_a_while(shop: Shop, clock: HandClock) -> None:
    other = Shop(shop.service, clock, GateOptions(rules=OPTIONS.rules, grace=600))
    headers = await other.session()
    await other.look_again()
    await _away(other)
    await clock.advance(300)
    assert (await other.http.get("/checkout", headers=headers)).status_code == 200
    await clock.advance(600)
    assert (await other.http.get("/checkout", headers=headers)).status_code == 503
    await other.http.aclose()


async def test_what_the_operator_says_counts_more_than_an_option(shop: Shop) -> None:
    admin = await shop.service.operator()
    assert (await admin.http.patch(ROOM, json={"fail_policy": "open"})).status_code == 200
    await shop.look_again()
    await _away(shop)
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 200
    assert (await admin.http.patch(ROOM, json={"fail_policy": "ajar"})).status_code == 422


async def test_an_operator_opens_the_middleware_too(shop: Shop, clock: HandClock) -> None:
    await shop.service.control.fail_open(60)
    await shop.look_again()
    assert (await shop.http.post("/checkout")).status_code == 200
    await clock.advance(61)
    assert (await shop.http.post("/checkout")).status_code == 429


async def test_rules_come_from_the_room_where_the_site_brings_none(
    shop: Shop, clock: HandClock
) -> None:
    admin = await shop.service.operator()
    rules: list[dict[str, Any]] = [
        {"path": "/checkout/health", "action": "bypass"},
        {"path": "/checkout*", "agent": "BadBot", "action": "block"},
        {"path": "/checkout*", "methods": ["GET"]},
    ]
    await admin.http.put(f"{ROOM}/rules", json=rules)
    other = Shop(shop.service, clock, GateOptions())
    await other.look_again()
    assert (await other.http.get("/checkout", headers=PAGE)).status_code == 303
    assert (await other.http.get("/checkout/health", headers=PAGE)).status_code == 200
    bad = {**PAGE, "user-agent": "BadBot/1.0"}
    assert (await other.http.get("/checkout", headers=bad)).status_code == 403
    assert (await other.http.post("/checkout", headers=PAGE)).status_code == 200
    # The handshake of a websocket is a GET.
    sent: list[Any] = []
    scope = {"type": "websocket", "path": "/checkout", "headers": [(b"upgrade", b"websocket")]}

    async def send(message: Any) -> None:
        sent.append(message)

    await other.middleware(scope, None, send)  # pyright: ignore[reportArgumentType]
    assert sent == [{"type": "websocket.close", "code": 1013}]
    await other.http.aclose()


@pytest.mark.parametrize(
    "rule",
    [
        {"path": "/*", "header": "X-Partner", "action": "bypass"},
        {"path": "/checkout?x=1"},
        {"path": "/checkout", "methods": ["GET, POST"]},
        {"path": "checkout"},
        {"path": "/checkout", "action": "open"},
    ],
)
async def test_rules_that_cannot_be_meant_are_refused_where_they_are_written(
    shop: Shop, rule: dict[str, Any]
) -> None:
    admin = await shop.service.operator()
    assert (await admin.http.put(f"{ROOM}/rules", json=[rule])).status_code == 422
    assert (await admin.http.get(f"{ROOM}/rules")).json() == {"rules": []}


async def test_a_room_that_was_started_anew_is_asked_over_a_new_connection(shop: Shop) -> None:
    port = free_port()
    fetch = http_fetch(f"http://127.0.0.1:{port}")
    for _ in range(2):
        async with serving(shop.service.app, host="127.0.0.1", port=port):
            for _ in range(2):
                status, body = await asyncio.to_thread(fetch, "GET", "/health/live", {})
                assert (status, body) == (200, b'{"status":"alive"}')
    with pytest.raises(StoreUnreachable, match="does not answer"):
        await asyncio.to_thread(fetch, "GET", "/health/live", {})


async def test_what_may_have_had_its_effect_is_not_sent_again() -> None:
    """A token counts once: asked again over a new connection, it would be refused."""
    asked: list[str] = []
    closed: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := (await reader.read(65536)).decode():
            asked.append(head.partition(" HTTP")[0])
            if "/once" in asked[-1] or (asked.count(asked[-1]) == 1 and "/first" not in asked[-1]):
                break
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        closed.append(asked[-1])

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        fetch = http_fetch(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await asyncio.to_thread(fetch, "GET", "/first", {})
        with pytest.raises(StoreUnreachable):
            await asyncio.to_thread(fetch, "POST", "/once", {}, b"{}")
        assert asked == ["GET /first", "POST /once"]
        # What only asks may be asked again.
        await asyncio.to_thread(fetch, "GET", "/first", {})
        assert (await asyncio.to_thread(fetch, "GET", "/twice", {}))[0] == 200
        assert asked[2:] == ["GET /first", "GET /twice", "GET /twice"]
        del fetch
        async with asyncio.timeout(LIMIT_S):
            while len(closed) < 3:
                await asyncio.sleep(0.01)


async def test_the_first_request_after_a_quiet_while_finds_the_room_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    began = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: began + passed[0])
    monkeypatch.setattr(connector, "time", clock)
    shop.away = True
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 503
    shop.away = False
    passed[0] = 120
    assert (await shop.http.get("/checkout", headers=PAGE)).status_code == 303


@pytest.mark.parametrize(("secure", "kept"), [(True, "wr_own=1; wr_s_x=2"), (False, "wr_own=1")])
def test_a_sites_own_cookies_reach_it_whatever_they_begin_with(secure: bool, kept: str) -> None:
    gate = Gate(GateOptions(secure_cookies=secure))
    assert gate.without_ours("wr_own=1; __Host-wr_v=zzz; wr_s_x=2") == kept


async def test_only_what_the_room_has_signed_is_believed(shop: Shop) -> None:
    await shop.look_again()
    signed = await shop.service.visitor().get(
        "/v1/connector-config", headers={"accept": "application/jose"}
    )
    keys = shop.middleware.gate.keys
    assert keys is not None
    assert keys.read(signed.text, CONFIG) is not None
    assert keys.read(signed.text, SESSION) is None
    head, payload, signature = signed.text.split(".")
    assert keys.read(f"{head}.{payload[:-2]}AA.{signature}", CONFIG) is None
    answers = {"/.well-known/jwks.json": shop.service.keyring.jwks(), "/v1/connector-config": {}}
    gate = Gate(OPTIONS)

    def fetch(
        method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        return 200, str(answers[path]).replace("'", '"').encode()

    link = Link(gate, fetch)
    assert [link.refresh(), gate.keys] == [AGAIN_S, None]


@pytest.mark.parametrize("wrong", [{"open_at_most": -1}, {"recheck": -1}, {"grace": -1}])
def test_a_patience_below_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidOption, match="at least 0"):
        GateOptions(**wrong)  # pyright: ignore[reportArgumentType]

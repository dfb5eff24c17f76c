"""Webhooks: events are sent signed, in order, and again until the site took them."""

import asyncio
import hashlib
import hmac
import socket
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, Person, RoomService
from waystation.core.clock import HandClock
from waystation.core.errors import InvalidOption
from waystation.core.http import outgoing
from waystation.core.http.addresses import networks
from waystation.core.http.server import serving
from waystation.core.webhooks import delivery as outside
from waystation.core.webhooks import dispatch
from waystation.waitingroom.http.app import App
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.http.webhooks import WebhookDispatcher, dispatcher_of
from waystation.waitingroom.visitor import JoinRequest

HOOKS = f"/api/v1/admin/queues/{QUEUE}/webhooks"
INSIDE = ("127.0.0.0/8",)


class Listener:
    """A site that wants to know."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/heard?shop=1"
        self.answer = 204
        self.requests: list[tuple[dict[str, str], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        self.requests.append(({n.decode(): v.decode() for n, v in scope["headers"]}, body))
        headers = [(b"location", b"http://127.0.0.1:1/")]
        await send({"type": "http.response.start", "status": self.answer, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def events(self) -> list[dict[str, Any]]:
        return [each for _, body in self.requests for each in msgspec.json.decode(body)["events"]]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one pass end though the machine is busy."""
    monkeypatch.setattr(dispatch, "WAIT_S", LIMIT_S)


@pytest.fixture
async def listener() -> AsyncGenerator[Listener]:
    port = free_port()
    built = Listener(port)
    async with serving(built, host="127.0.0.1", port=port):
        yield built


@pytest.fixture
async def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def service(redis_url: str, clock: HandClock) -> AsyncGenerator[RoomService]:
    options = ServerOptions(poll_floor=0, webhook_networks=INSIDE)
    async with harness.service(redis_url, options, clock=clock) as built:
        yield built


async def _hooked(
    service: RoomService, listener: Listener, *events: str
) -> tuple[Person, dict[str, Any]]:
    admin = await service.operator()
    made = await admin.post(HOOKS, {"url": listener.url, "events": list(events)})
    assert made.status_code == 201, made.text
    return admin, made.json()


async def test_a_site_hears_what_it_asked_for_in_order_and_signed(
    service: RoomService, listener: Listener
) -> None:
    _, hook = await _hooked(service, listener, "waiting", "admitted")
    dispatcher = dispatcher_of(service.context)
    place = await service.visitor().join()
    await service.admission.admit_now(1)
    await dispatcher.carry()
    await dispatcher.carry()
    assert [each["event"] for each in listener.events()] == ["waiting", "admitted"]
    assert {each["subject"] for each in listener.events()} == {place["position_id"]}
    assert "network" not in listener.events()[0]
    headers, body = listener.requests[0]
    stamp, _, mac = headers["wr-signature"].partition(",v1=")
    said = stamp.removeprefix("t=").encode() + b"." + body
    assert mac == hmac.new(hook["secret"].encode(), said, hashlib.sha256).hexdigest()
    assert headers["wr-delivery"] == listener.events()[-1]["id"]


async def test_a_room_lags_as_far_behind_as_the_last_of_its_webhooks(
    service: RoomService, listener: Listener
) -> None:
    admin, _ = await _hooked(service, listener, "waiting")
    dead = f"http://127.0.0.1:{free_port()}/"
    made = (await admin.post(HOOKS, {"url": dead, "events": ["waiting"]})).json()
    lag = service.context.metrics.webhook_lag.of(QUEUE)
    await service.visitor().join()
    # Another process goes on where the first one has failed.
    for dispatcher in (dispatcher_of(service.context), dispatcher_of(service.context)):
        dispatcher._election._owner = "one"  # pyright: ignore[reportPrivateUsage]
        await dispatcher.carry()
        await dispatcher.carry()
        assert lag._value.get() > 0  # pyright: ignore
        lag.set(0)
    await admin.http.delete(f"{HOOKS}/{made['id']}")
    lag.set(1)
    await dispatcher.carry()
    assert lag._value.get() == 0  # pyright: ignore


async def test_an_entry_that_cannot_be_read_holds_up_no_other(
    redis: Any, service: RoomService, listener: Listener
) -> None:
    """Neither among the webhooks of a room nor among its events."""
    await _hooked(service, listener, "waiting")
    await redis.hset(service.room.store.keys.hooks, "aa", "{")
    for odd in ({"event": b"\xff"}, {"event": "waiting", "at": "soon"}):
        await redis.xadd(service.room.store.keys.events, odd)
    await service.visitor().join()
    await dispatcher_of(service.context).carry()
    assert [each["event"] for each in listener.events()] == ["waiting"]


async def test_what_was_not_taken_comes_again_later_and_nothing_is_skipped(
    service: RoomService, listener: Listener, clock: HandClock
) -> None:
    admin, _ = await _hooked(service, listener, "waiting")
    dispatcher = dispatcher_of(service.context)
    listener.answer = 500
    await service.visitor().join()
    await dispatcher.carry()
    await dispatcher.carry()
    assert len(listener.requests) == 1
    [hook] = (await admin.get(HOOKS)).json()["webhooks"]
    assert (hook["failures"], hook["last_error"]) == (1, "the answer was 500")
    listener.answer = 200
    await service.visitor("10.1.1.2").join()
    await clock.advance(3)
    await dispatcher.carry()
    assert len(listener.requests) == 2
    assert len(msgspec.json.decode(listener.requests[1][1])["events"]) == 2
    [hook] = (await admin.get(HOOKS)).json()["webhooks"]
    assert (hook["failures"], hook["delivered"]) == (0, 2)


async def test_of_several_processes_one_carries(service: RoomService, listener: Listener) -> None:
    await _hooked(service, listener, "waiting")
    dispatchers = [
        WebhookDispatcher(
            service.store,
            service.rooms,
            owner=name,
            private=networks(INSIDE, "webhook_networks"),
            clock=service.clock,
        )
        for name in ("one", "two")
    ]
    await service.visitor().join()
    for dispatcher in dispatchers:
        await dispatcher.carry()
    assert len(listener.requests) == 1


async def test_whoever_asked_for_it_is_told_by_the_site_that_it_is_their_turn(
    service: RoomService, listener: Listener
) -> None:
    await _hooked(service, listener, "admitted")
    person, other = service.visitor(), service.visitor("10.1.1.2")
    await person.join()
    await other.join()
    assert (await person.ask("POST", "notify", {"handle": "order-17"})).status_code == 201
    assert (await other.ask("POST", "notify", {"handle": "order-18"})).status_code == 201
    assert (await other.ask("DELETE", "notify")).status_code == 204
    assert (await person.ask("POST", "notify", {"handle": "a b<c>"})).status_code == 400
    await service.admission.admit_now(2)
    await dispatcher_of(service.context).carry()
    assert [each.get("notify") for each in listener.events()] == ["order-17", None]


async def test_a_handle_of_somebody_gone_is_not_kept(service: RoomService) -> None:
    person = service.visitor()
    place = await person.join()
    position = service.room.store.keys.of(place["position_id"]).position
    await service.store.redis.delete(position)
    assert (await person.ask("POST", "notify", {"handle": "x"})).status_code == 410
    assert await service.store.redis.exists(position) == 0


async def test_a_webhook_is_tried_out_and_taken_away(
    service: RoomService, listener: Listener
) -> None:
    admin, hook = await _hooked(service, listener)
    tried = await admin.post(f"{HOOKS}/{hook['id']}/test")
    assert tried.json() == {"taken": True, "error": ""}
    assert listener.events()[0]["event"] == "ping"
    listener.answer = 302
    assert (await admin.post(f"{HOOKS}/{hook['id']}/test")).json()["taken"] is False
    assert hook["secret"] not in (await admin.get(HOOKS)).text
    assert (await admin.http.delete(f"{HOOKS}/{hook['id']}")).status_code == 204
    assert (await admin.http.delete(f"{HOOKS}/{hook['id']}")).status_code == 404
    assert (await admin.post(HOOKS, {"url": listener.url, "events": ["x"]})).status_code == 422


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/", "ftp://example.org/", "https://user@example.org/",
        "https://", "https://e.test\\@127.0.0.1/", "https://a b/", "https://e.test:99999/",
        "https://" + "x" * 600,
    ],
)  # fmt: skip
def test_41_a_webhook_s_address_is_plain_and_public(url: str) -> None:
    with pytest.raises(InvalidOption):
        outside.checked(url, ())


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]",
     "0.0.0.0", "2130706433", "[fe80::1]", "[fd00::1]", "224.0.0.1"],
)  # fmt: skip
def test_41_a_webhook_does_not_lead_inside(host: str) -> None:
    with pytest.raises(outside.Unreachable, match=r"inside|nobody knows"):
        outside.post(f"https://{host}/", b"", {}, ())


def test_41_a_name_is_asked_for_once_so_that_it_cannot_change_its_mind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    reached: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: str, port: int, *rest: Any, **more: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1" if len(asked) > 1 else "8.8.8.8", port, *rest, **more)

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        reached.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    monkeypatch.setattr(outgoing, "create_connection", connect)
    with pytest.raises(outside.Unreachable, match=r"rebinding\.test does not answer"):
        outside.post("https://rebinding.test/", b"", {}, ())
    assert (asked, reached) == (["rebinding.test"], ["8.8.8.8"])


INSIDE_LITERALS = (
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "10.0.0.1", "169.254.169.254", "[::1]",
    "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "localhost",
    "shop.localhost", "localhost.", "192.0.0.192",
)  # fmt: skip


@pytest.mark.parametrize("host", INSIDE_LITERALS)
async def test_an_address_inside_is_refused_when_the_webhook_is_made(
    service: RoomService, host: str
) -> None:
    outward = WebhookDispatcher(service.store, service.rooms, owner="outward")
    service.app = App(service.context, dispatcher=outward)
    admin = await service.operator()
    path = f"/api/v1/admin/queues/{QUEUE}/webhooks"
    answer = await admin.post(path, {"url": f"https://{host}/room"})
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_OPTION")
    assert "leads inside, where no webhook may go" in answer.json()["detail"]


def test_an_address_inside_that_was_named_is_allowed() -> None:
    for url in ("http://127.0.0.1:9/x", "https://127.0.0.1/", "https://[64:ff9b::7f00:1]/"):
        assert outside.checked(url, networks(INSIDE, "webhook_networks")) == url
    for url in ("https://8.8.8.8/", "https://[64:ff9b::808:808]/", "https://shop.example/"):
        assert outside.checked(url, ()) == url


async def test_a_site_that_is_away_is_told_later(service: RoomService) -> None:
    admin = await service.operator()
    away = f"http://127.0.0.1:{free_port()}/"
    hook = (await admin.post(HOOKS, {"url": away})).json()
    tried = await admin.post(f"{HOOKS}/{hook['id']}/test")
    assert tried.json() == {
        "taken": False,
        "error": "127.0.0.1 does not answer: ConnectionRefusedError",
    }


async def test_alarms_are_heard_with_what_they_say(
    service: RoomService, listener: Listener
) -> None:
    admin, _ = await _hooked(service, listener, "alarm", "alarm-over")
    path = f"/api/v1/admin/queues/{QUEUE}/alarms"
    await service.visitor().join()
    rung = (await admin.http.put(path, json={"waiting": 1})).json()
    assert rung["alarms"] == {"waiting": "1 people are in line"}
    assert (await admin.get(f"/api/v1/admin/queues/{QUEUE}/stats")).json()["alarms"]
    assert (await admin.http.put(path, json={})).json()["alarms"] == {}
    await dispatcher_of(service.context).carry()
    assert [(each["event"], each["alarms"]) for each in listener.events()] == [
        ("alarm", '{"waiting":"1 people are in line"}'),
        ("alarm-over", ""),
    ]
    viewer = await service.operator("viewer")
    assert (await viewer.http.put(path, json={"waiting": 1})).status_code == 403
    assert (await viewer.get(path)).json()["limits"]["waiting"] == 0
    for wrong in ({"waiting": -1}, {"no_shows": 2}, {"loud": True}):
        assert (await admin.http.put(path, json=wrong)).status_code in (400, 422)


async def test_a_webhook_reads_past_what_is_not_for_it_in_one_pass(
    service: RoomService, listener: Listener
) -> None:
    await _hooked(service, listener, "alarm")
    for at in range(1500):
        await service.room.store.ask(
            "XADD", service.room.store.keys.events, "*", "event", "waiting", "at", str(at)
        )
    await service.room.store.ask("XADD", service.room.store.keys.events, "*", "event", "alarm")
    await dispatcher_of(service.context).carry()
    assert [each["event"] for each in listener.events()] == ["alarm"]


@pytest.mark.parametrize("begun", [True, False], ids=["read before", "nothing read yet"])
async def test_events_that_were_trimmed_unread_are_told_as_a_gap(
    service: RoomService, listener: Listener, begun: bool
) -> None:
    stream = service.room.store.keys.events
    await service.room.store.ask("DEL", stream)
    await _hooked(service, listener, "alarm")
    dispatcher = dispatcher_of(service.context)
    if begun:
        await service.room.store.ask("XADD", stream, "1-1", "event", "waiting")
        await dispatcher.carry()
    for at in range(2, 300):
        event = "alarm" if at == 2 else "waiting"
        command = ("XADD", stream, "MAXLEN", "=", 100, f"{at}-1", "event", event)
        await service.room.store.ask(*command)
    await dispatcher.carry()
    await dispatcher.carry()
    after = "1-1" if begun else "0-0"
    assert [(each["event"], each["id"]) for each in listener.events()] == [
        ("gap", f"{after}..200-1")
    ]


async def test_a_receiver_that_is_slow_or_odd_holds_up_no_other(
    service: RoomService, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, _ = await _hooked(service, listener, "waiting")
    other = service.rooms.of("other")
    await other.open()
    service.rooms.forget()
    for url in ("http://127.0.0.1:1/slow", "http://127.0.0.1:1/odd"):
        made = await admin.post(
            "/api/v1/admin/queues/other/webhooks", {"url": url, "events": ["waiting"]}
        )
        assert made.status_code == 201, made.text
    dispatcher = dispatcher_of(service.context)
    real, slow = dispatcher.sender.send, asyncio.Event()

    async def send(url: str, *rest: Any, **more: Any) -> str:
        if "slow" in url:
            await slow.wait()
        if "odd" in url:
            raise UnicodeError("label too long")
        return await real(url, *rest, **more)

    monkeypatch.setattr(dispatcher.sender, "send", send)
    monkeypatch.setattr(dispatch, "WAIT_S", 0.05)
    await other.join(JoinRequest(key="k", secret="s"))
    for turn in range(2):
        await service.visitor(f"10.1.1.{turn}").join()
        async with asyncio.timeout(LIMIT_S):
            while len(listener.events()) <= turn:
                await dispatcher.carry()
    # Whoever is served goes on being served once, and not once for each pass.
    slow.set()
    await dispatcher.close()

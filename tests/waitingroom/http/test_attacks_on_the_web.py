"""What attacks on browsers and operators achieve: nothing. Numbers are the reference's."""

from typing import Any

import pytest

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import ADMIN, QUEUE, RoomService
from waystation.core.errors import InvalidInput
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.context import safe_path
from waystation.waitingroom.http.options import ServerOptions

ELSEWHERE = [
    "//e.test",
    "/\\e.test",
    "/%5ce.test",
    "/%2fe.test",
    "/%252fe.test",
    "https:e.test",
    "https://e.test",
    "\t//e.test",
    "/\t/e.test",
    "//e.test%00",
    "/x%00",
    "http://shop.test@e.test",
    "javascript:alert(1)",
    "/a\r\nSet-Cookie: x=1",
    "/a b",
    " //e.test",
    "/%0d%0aSet-Cookie:x",
    "",
    "e.test",
]


@pytest.mark.parametrize("target", ELSEWHERE)
async def test_35_and_43_nobody_is_sent_elsewhere(service: RoomService, target: str) -> None:
    """F34: where to go on is checked wherever it is said."""
    with pytest.raises(InvalidInput):
        safe_path(target)
    if not target:
        return
    person = service.visitor()
    page = await person.get(f"/wait/{QUEUE}", params={"target": target})
    assert page.status_code == 400
    await person.arrive()
    assert (await person.ask("POST", "enqueue", {"target": target})).status_code == 400
    sent = await person.get(f"/v1/verify?queue={QUEUE}", headers={"x-original-uri": "/ok"})
    assert sent.headers["wr-location"].startswith(f"/wait/{QUEUE}?r=")


async def test_35_a_room_goes_back_only_to_hosts_that_its_operator_named(
    service: RoomService,
) -> None:
    admin = await service.operator()
    hosts = {"return_hosts": "shop.test,localhost:8000"}
    assert (await admin.http.patch(ADMIN, json=hosts)).status_code == 200
    await service.room.state()
    person = service.visitor()
    query = "?target=http://localhost:8000/checkout?seat=4"
    page = await person.get(f"/wait/{QUEUE}{query}")
    assert "form-action 'self' shop.test localhost:8000;" in page.headers["content-security-policy"]
    facts = await person.get(f"/wait/{QUEUE}/facts{query}")
    assert facts.json()["target"] == "//localhost:8000/checkout?seat=4"
    for evil in (
        "https://evil.test/", "https://shop.test@evil.test/", "https://shop.test.evil.test/",
        "https://shop.test//evil.test", "ftp://shop.test/", "https://shop.test\\@evil.test/",
        "https://SHOP.test:99999/", "https:///evil.test",
    ):  # fmt: skip
        for asked in (f"/wait/{QUEUE}", f"/wait/{QUEUE}/facts"):
            answer = await person.get(asked, params={"target": evil})
            assert answer.status_code == 400, evil
    for wrong in ("a b,c", ["a b"], ["https://shop.test"], [["shop.test"]], {"a": 1}, 7):
        response = await admin.http.patch(ADMIN, json={"return_hosts": wrong})
        assert response.status_code == 422, wrong
        assert "hosts such as shop.example" in response.json()["detail"]


async def test_the_hosts_to_go_back_to_are_written_as_a_list_or_with_commas(
    service: RoomService,
) -> None:
    admin = await service.operator()
    for written in (["shop.test", "localhost:8000"], "shop.test, localhost:8000"):
        response = await admin.http.patch(ADMIN, json={"return_hosts": written})
        assert response.json()["settings"]["return_hosts"] == "shop.test,localhost:8000"
    for none in (list[str](), ""):
        response = await admin.http.patch(ADMIN, json={"return_hosts": none})
        assert "return_hosts" not in response.json()["settings"]


async def test_a_host_that_was_taken_off_the_list_is_left_out_of_the_way_back(
    service: RoomService,
) -> None:
    await service.room.store.write({"return_hosts": "localhost:8000"})
    await service.room.state()
    sealed = service.tokens.seal_target(service.room, "localhost:8000", "/checkout")
    page = f"/wait/{QUEUE}/facts?r={sealed}"
    assert (await service.visitor().get(page)).json()["target"] == "//localhost:8000/checkout"
    await service.room.store.write({"return_hosts": ""})
    await service.room.state()
    assert (await service.visitor().get(page)).json()["target"] == "/checkout"


async def test_only_a_proxy_that_is_believed_says_which_host_was_asked_for(redis_url: str) -> None:
    options = ServerOptions(trusted_proxies=["10.7.0.0/16"])
    async with harness.service(redis_url, options) as service:
        await service.room.store.write({"return_hosts": "shop.example,other.example"})
        for name in ("x-original-host", "x-forwarded-host"):
            for address, target in (("10.7.0.1", "//other.example/x"), ("10.1.1.1", "/x")):
                headers = {"x-original-uri": "/x", name: "other.example"}
                person = service.visitor(address)
                response = await person.get(f"/v1/verify?queue={QUEUE}", headers=headers)
                where, _, query = response.headers["wr-location"].partition("?")
                facts = await person.get(f"{where}/facts?{query}")
                assert facts.json()["target"] == target


async def test_36_and_37_nothing_becomes_markup(service: RoomService) -> None:
    evil = "</script><script>alert(1)</script>${nonce}{{7*7}}"
    await service.room.store.write({"name": evil})
    await service.control.show_message({"en": evil})
    person = await service.joined()
    for plain, scripts in (({}, 2), ({"plain": "1"}, 0)):
        query = {"lang": evil, "target": "/x?<script>", **plain}
        page = await person.get(f"/wait/{QUEUE}", params=query)
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "49" not in page.text.partition("alert")[2][:40]
        assert page.text.count("</script>") == scripts


async def test_38_another_site_can_do_nothing_in_a_visitor_s_name(service: RoomService) -> None:
    person = await service.joined()
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.test"}):
        for method, verb in (
            ("POST", "enqueue"), ("POST", "claim"), ("DELETE", "position"), ("POST", "heartbeat"),
        ):  # fmt: skip
            answer = await person.ask(method, verb, {}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "CROSS_SITE")
        form = await person.http.post(f"/wait/{QUEUE}/leave", headers=headers)
        assert form.status_code == 403
    assert (await service.room.state()).waiting == 1


async def test_39_and_40_no_frames_no_foreign_readers(service: RoomService) -> None:
    """F32, F35: a link from a mail keeps the place, and no other site reads anything."""
    person = service.visitor()
    page = await person.get(f"/wait/{QUEUE}", headers={"origin": "https://evil.test"})
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in page.headers
    for cookie in page.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-")
        assert all(each in cookie for each in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/"))


@pytest.mark.parametrize(
    "url",
    ["http://e.test/", "https://user@e.test/", "file:///etc/passwd", "https://a\\b", "https:"],
)
async def test_41_a_target_url_is_https_and_plain(service: RoomService, url: str) -> None:
    admin = await service.operator()
    answer = await admin.http.patch(ADMIN, json={"target_url": url})
    assert answer.status_code == 422


async def test_a_target_on_this_machine_can_be_tried_without_tls(service: RoomService) -> None:
    admin = await service.operator()
    for url in ("http://localhost:8000/shop", "http://127.0.0.1/", "http://[::1]:1/"):
        assert (await admin.http.patch(ADMIN, json={"target_url": url})).status_code == 200
        service.rooms.forget()
        policy = (await service.visitor().get(f"/wait/{QUEUE}")).headers["content-security-policy"]
        assert "/".join(url.split("/")[:3]) in policy


async def test_a_room_without_a_target_ends_on_a_page(service: RoomService) -> None:
    person = service.visitor(accept="text/html")
    assert (await person.get("/")).headers["content-type"] == "application/problem+json"
    entered = await person.enter()
    assert entered["redirect_url"] == "/"
    page = await person.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "You may go in" in page.text


async def test_52_a_key_allows_its_role_and_its_rooms(service: RoomService) -> None:
    """F35: no key opens everything."""
    viewer = await service.operator("viewer")
    operator = await service.operator("operator")
    elsewhere = await service.operator("admin", ["other"])
    assert (await viewer.get(f"{ADMIN}/stats")).status_code == 200
    assert (await viewer.post(f"{ADMIN}/pause")).status_code == 403
    assert (await operator.post(f"{ADMIN}/pause")).status_code == 200
    assert (await operator.http.patch(ADMIN, json={"max_active": 5})).status_code == 403
    assert (await elsewhere.get(f"{ADMIN}/stats")).status_code == 403
    assert (await service.visitor().get(f"{ADMIN}/stats")).status_code == 401


async def test_52_a_connector_s_key_only_connects(service: RoomService) -> None:
    connector = await service.operator("connector")
    assert (await connector.get(f"/api/v1/admin/queues/{QUEUE}/stats")).status_code == 403
    for queue, is_allowed in ((QUEUE, True), ("other", False)):
        limited = await service.operator("connector", [queue])
        asked = {"queue": QUEUE, "address": "192.0.2.7"}
        assert ((await limited.post("/v1/enter", asked)).status_code != 403) is is_allowed


async def test_53_and_57_keys_and_addresses_are_kept_nowhere(service: RoomService) -> None:
    """F25: no address, no browser, no key, no secret, no token; only keyed digests."""
    admin = await service.operator()
    key = admin.http.headers["authorization"].partition(" ")[2]
    agent = "Mozilla/5.0 (a very telling agent)"
    person = service.visitor("203.0.113.77", **{"user-agent": agent})
    begun = await person.enter()
    await admin.post(f"/api/v1/admin/queues/{QUEUE}/pause")
    kept = b""
    redis: Any = service.store.redis
    async for name in redis.scan_iter():
        kept += name + b" " + await redis.dump(name) + b"\n"
    for secret in (key, "203.0.113.77", agent, person.cookie("v"), begun["session_token"]):
        assert secret.encode() not in kept


async def test_54_guessing_keys_is_slow(service: RoomService) -> None:
    guesser = service.visitor("10.8.8.8")
    path = f"/api/v1/admin/queues/{QUEUE}/stats"
    codes = [
        (await guesser.get(path, headers={"authorization": f"Bearer wrk_{n}"})).status_code
        for n in range(15)
    ]
    assert codes[0] == 401
    assert codes[-1] == 429
    admin = await service.operator()
    assert (await admin.get(path)).status_code == 200


async def test_55_everything_an_operator_does_is_written_down(service: RoomService) -> None:
    admin = await service.operator()
    await admin.post(f"{ADMIN}/rate", {"new_users_per_minute": 120})
    entries = (await admin.get("/api/v1/admin/audit")).json()["entries"]
    assert entries[0]["who"] == "a admin"
    assert (
        entries[0]["before"] == '{"admission_rate":"0","version":"1"}'
        or "0" in (entries[0]["before"])
    )
    assert '"admission_rate":"2"' in entries[0]["after"]


async def test_58_numbers_are_not_for_everybody(service: RoomService) -> None:
    assert (await service.visitor("203.0.113.7").get("/metrics")).status_code == 401
    assert (await service.visitor("127.0.0.1").get("/metrics")).status_code == 200


async def test_prometheus_on_this_machine_needs_no_key_where_proxies_are_believed(
    redis_url: str,
) -> None:
    options = ServerOptions(trusted_proxies=["127.0.0.1/32"])
    async with harness.service(redis_url, options) as service:
        here = service.visitor("127.0.0.1")
        assert (await here.get("/metrics")).status_code == 200
        for name, value in (
            ("x-forwarded-for", "203.0.113.7"), ("x-forwarded-for", "127.0.0.1"),
            ("forwarded", "for=203.0.113.7"), ("x-real-ip", "203.0.113.7"), ("via", "1.1 proxy"),
            ("x-forwarded-proto", "https"), ("x-forwarded-host", "shop.test"),
        ):  # fmt: skip
            through = await here.get("/metrics", headers={name: value})
            assert through.status_code == 401, name
        assert (await service.visitor("203.0.113.7").get("/metrics")).status_code == 401


async def test_60_a_second_party_keeps_its_part_of_the_draw_secret(service: RoomService) -> None:
    from waystation.waitingroom.operating.lottery import Lottery, Proof, commit, verify

    admin, somebody = await service.operator(), service.visitor()
    now_ms = (await service.room.state()).now_ms
    secret = "cd" * 32
    asked = {
        "prequeue_start_time": rfc3339(now_ms - 1000), "shuffle_at_event_start": True,
        "event_start_time": rfc3339(now_ms + 60_000),
        "event_end_time": rfc3339(now_ms + 3_600_000), "witness": commit(secret),
    }  # fmt: skip
    for wrong in ({"witness": "x"}, {"shuffle_at_event_start": False}):
        assert (await admin.post(f"{ADMIN}/events", {**asked, **wrong})).status_code in (400, 422)
    assert (await admin.post(f"{ADMIN}/events", asked)).json()["witness"] == commit(secret)
    for number in range(5):
        await service.visitor(f"10.7.0.{number}").join()
    before = (await somebody.ask("GET", "fairness")).json()
    assert before.keys() == {"method", "commit", "witness"}
    assert before["witness"] == commit(secret)
    early = await somebody.ask("POST", "fairness/reveal", {"secret": secret})
    assert early.status_code == 409
    await Lottery(service.room).draw(beacon="noon")
    closed = (await somebody.ask("GET", "fairness")).json()
    assert (closed["n"], "seed" in closed) == (5, False)
    for wrong in ("ef" * 32, "short", "CD" * 32):
        answer = await somebody.ask("POST", "fairness/reveal", {"secret": wrong})
        assert answer.status_code in (400, 422)
    mixed = await somebody.ask("POST", "fairness/reveal", {"secret": secret})
    assert mixed.json() == {"mixed": True}
    await Lottery(service.room).draw(beacon="noon")
    await service.room.state()
    drawn = (await somebody.ask("GET", "fairness")).json()
    order = (await somebody.ask("GET", "fairness/order")).json()["ids"]
    assert (drawn["entrants"], drawn["revealed"]) == (closed["entrants"], True)
    proof = Proof(
        commitment=before["commit"], seed=drawn["seed"], beacon=drawn["beacon"], count=drawn["n"],
        opened_us=drawn["opened_us"], digest=drawn["digest"], witness=before["witness"],
        revealed=drawn["revealed"], entrants=drawn["entrants"],
    )  # fmt: skip
    verify(proof, order)

"""The configuration that proxies are sent."""

from tests.waitingroom.http.harness import QUEUE, Person, RoomService

PAGE = {"accept": "text/html"}


async def test_nginx_is_told_in_the_statuses_that_it_knows(service: RoomService) -> None:
    person = service.visitor()
    headers = {"x-original-uri": "/checkout", "x-original-host": "shop.test"}
    response = await person.get(f"/v1/verify?queue={QUEUE}", headers=headers)
    assert response.status_code == 401
    assert response.headers["wr-location"].startswith("/wait/shop?r=")
    assert response.json()["code"] == "WAITING_ROOM_REQUIRED"
    await person.enter()
    passed = await person.get(f"/v1/verify?queue={QUEUE}")
    assert (passed.status_code, passed.headers["wr-queue"]) == (204, "shop")


async def _target(person: Person, page: str) -> str:
    """Where a waiting page will send its visitor on to."""
    where, _, query = page.partition("?")
    return (await person.get(f"{where}/facts?{query}")).json()["target"]


async def test_traefik_s_visitors_are_redirected_or_told(service: RoomService) -> None:
    person = service.visitor()
    path = f"/v1/verify?queue={QUEUE}&mode=redirect"
    headers = {"x-forwarded-uri": "/checkout?a=1", "x-forwarded-method": "GET"}
    sent = await person.get(path, headers={**PAGE, **headers})
    assert sent.status_code == 303
    assert await _target(person, sent.headers["location"]) == "/checkout?a=1"
    post = await person.get(path, headers={**PAGE, **headers, "x-forwarded-method": "POST"})
    assert (post.status_code, post.headers["retry-after"]) == (429, "5")


async def test_envoy_asks_with_the_visitor_s_own_method_and_path(service: RoomService) -> None:
    person = service.visitor()
    path = f"/v1/verify/envoy/{QUEUE}/checkout/seats?row=4"
    sent = await person.get(path, headers=PAGE)
    assert sent.status_code == 303
    assert await _target(person, sent.headers["location"]) == "/checkout/seats?row=4"
    assert (await person.post(path, headers=PAGE)).status_code == 429
    await person.enter()
    assert (await person.post(path)).status_code == 200


async def test_fail_open_lets_everybody_through_and_is_seen(service: RoomService) -> None:
    await service.control.fail_open(60)
    await service.room.state()
    assert (await service.visitor().get(f"/v1/verify?queue={QUEUE}")).status_code == 204
    config = (await service.visitor().get("/v1/connector-config")).json()
    assert config["queues"][0]["fail_open"] is True


async def test_connectors_get_the_keys_to_come_as_well(service: RoomService) -> None:
    response = (await service.visitor().get("/.well-known/jwks.json")).json()
    assert len(response["keys"]) == 2
    assert all("d" not in key for key in response["keys"])


async def test_rules_are_checked_kept_and_handed_out(service: RoomService) -> None:
    admin = await service.operator()
    path = f"/api/v1/admin/queues/{QUEUE}/rules"
    rules = [{"path": "/checkout*", "methods": ["POST"]}]
    dry = await admin.http.put(f"{path}?dry_run=true", json=rules)
    assert dry.status_code == 200
    assert (await admin.get(path)).json()["rules"] == []
    assert (await admin.http.put(f"{path}?dry_run=perhaps", json=rules)).status_code == 400
    assert (await service.visitor().get(f"/v1/verify?queue={QUEUE}&mode=x")).status_code == 400
    assert (await admin.http.put(path, json=[{"path": "x"}])).status_code == 422
    await admin.http.put(path, json=rules)
    await service.room.state()
    config = await service.visitor().get("/v1/connector-config")
    assert config.json()["queues"][0]["rules"][0]["path"] == "/checkout*"
    same = {"if-none-match": config.headers["etag"]}
    assert (await service.visitor().get("/v1/connector-config", headers=same)).status_code == 304

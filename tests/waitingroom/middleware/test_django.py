"""The middleware of Django, in a site that runs in threads and in one on an event loop."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from django.core.exceptions import ImproperlyConfigured  # pyright: ignore[reportMissingTypeStubs]

from tests.support.ports import free_port
from tests.waitingroom.http import harness
from waystation.core.http.server import serving
from waystation.waitingroom.middleware.django import connector_of

# Django keeps one configuration in a process, so a site needs one of its own.
SITE = dedent("""
    import asyncio, json, sys
    from django.conf import settings
    room, cookie, kind = sys.argv[1:]
    settings.configure(
        ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"],
        MIDDLEWARE=["shop.look", "waystation.waitingroom.middleware.django.WaitingRoom"],
        WAITING_ROOM={"room": room, "rules": [{"queue": "shop", "path": "/checkout*"}]},
    )
    import django
    django.setup()
    from django.http import JsonResponse
    from django.test import AsyncClient, Client
    from django.urls import path
    import types

    def look(get_response):
        def before(request):
            request.COOKIES, request.headers
            return get_response(request)
        async def later(request):
            request.COOKIES, request.headers
            return await get_response(request)
        return later if asyncio.iscoroutinefunction(get_response) else before
    look.sync_capable = look.async_capable = True
    sys.modules["shop"] = types.SimpleNamespace(look=look)

    def seen(request):
        return JsonResponse({"cookies": dict(request.COOKIES),
                             "wr": [n for n in request.headers if n.lower().startswith("wr-")]})
    urlpatterns = [path("checkout", seen), path("", seen)]

    client = Client() if kind == "threads" else AsyncClient()
    client.cookies["own"] = "1"
    if cookie:
        name, _, value = cookie.partition("=")
        client.cookies[name] = value
    answer = client.get("/checkout", headers={"accept": "text/html", "wr-visitor": "me"})
    if kind == "loop":
        answer = asyncio.run(answer)
    print(json.dumps([answer.status_code, answer.content.decode(), dict(answer.headers)]))
""")


@pytest.mark.parametrize("kind", ["threads", "loop"])
async def test_a_session_passes_and_the_site_sees_its_own_cookies_alone(
    redis_url: str, kind: str, tmp_path: Path
) -> None:
    file, port = tmp_path / "site.py", free_port()
    file.write_text(SITE)
    async with (
        harness.service(redis_url, newcomers_per_minute=0) as service,
        serving(service.app, host="127.0.0.1", port=port),
    ):
        visitor = service.visitor()
        await visitor.enter()
        session = f"__Host-wr_s_{harness.QUEUE}={visitor.cookie(f's_{harness.QUEUE}')}"

        def ask(cookie: str) -> tuple[int, str, dict[str, str]]:
            command = [sys.executable, str(file), f"http://127.0.0.1:{port}", cookie, kind]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            return tuple(json.loads(done.stdout))

        status, body, _ = await asyncio.to_thread(ask, session)
        assert (status, json.loads(body)) == (200, {"cookies": {"own": "1"}, "wr": []})
        status, _, headers = await asyncio.to_thread(ask, "")
        assert (status, headers["location"]) == (303, "/wait/shop?target=%2Fcheckout")


@pytest.mark.parametrize(
    ("configured", "said"),
    [
        (None, "WAITING_ROOM must be a dictionary with the address of a room"),
        ({"room": "http://127.0.0.1:8080", "rule": []}, "WAITING_ROOM has no option rule"),
        ({"room": "http://127.0.0.1:8080", "rules": [{"queue": "shop"}]}, "`path`"),
        ({"room": "http://127.0.0.1:8080", "grace": -1}, "grace must be a timedelta or seconds"),
        ({"room": "127.0.0.1:8080"}, "must start with http:// or https://"),
    ],
)
def test_a_configuration_that_cannot_be_read_says_what_is_wrong(
    configured: object, said: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        connector_of(configured)

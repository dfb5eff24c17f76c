"""A real identity provider, run by Node, and somebody who has an account there."""

import asyncio
import json
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx2

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.support.programs import cannot_run
from tests.wire.install import NodeUnavailable, find_node, installed
from waystation.core.operators.oidc_settings import CALLBACK, Grant, OidcOptions
from waystation.core.operators.roles import Role

HERE = Path(__file__).parent
CLIENT, SECRET = "waiting room", "a secret of +/% letters"
PEOPLE = {"alice": ["staff", "admins"], "bob": ["night-shift", "staff"], "eve": ["interns"]}
GRANTS = {
    "admins": Grant(role=Role.ADMIN),
    "night-shift": Grant(role=Role.OPERATOR, queues=("shop",)),
    "staff": Grant(role=Role.VIEWER),
}
_FORM = re.compile(r'action="([^"]+)"')
_PROMPT = re.compile(r'name="prompt" value="(\w+)"')


@asynccontextmanager
async def provider(public_url: str) -> AsyncGenerator[OidcOptions]:
    """Run it for an application that browsers reach there."""
    try:
        folder = await asyncio.to_thread(installed, "oidc-provider-9", peers=HERE / "peers")
        program = (await asyncio.to_thread(find_node)).program
    except NodeUnavailable as unavailable:
        cannot_run(str(unavailable))
    port = free_port()
    options = OidcOptions(
        issuer=f"http://127.0.0.1:{port}",
        client_id=CLIENT,
        client_secret=SECRET,
        public_url=public_url,
        grants=GRANTS,
    )
    settings = {
        "port": port, "client": CLIENT, "secret": SECRET, "callback": public_url + CALLBACK,
        "people": PEOPLE,
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        program, HERE / "provider.mjs", json.dumps(settings),
        cwd=folder, stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            while await process.stdout.readline() not in (b"ready\n", b""):
                pass
        yield options
    finally:
        process.stdin.close()
        process.kill()
        await process.communicate()


async def log_in(where: str, name: str) -> str:
    """Go where the application redirects, sign in there, and return the next redirect."""
    async with httpx2.AsyncClient(timeout=LIMIT_S) as client:
        answer = await client.get(where)
        while True:
            if answer.is_redirect:
                where = urljoin(str(answer.url), answer.headers["location"])
                if CALLBACK in where:
                    return where
                answer = await client.get(where)
            else:
                assert answer.status_code == 200, answer.text
                (form,), (prompt,) = _FORM.findall(answer.text)[:1], _PROMPT.findall(answer.text)
                said = {"prompt": prompt, "login": name, "password": "any"}
                answer = await client.post(urljoin(str(answer.url), form), data=said)

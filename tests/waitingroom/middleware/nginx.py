"""Debian's nginx with the recipe of the example, in front of a room and a site."""

import getpass
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.patience import limit
from tests.support.ports import free_port
from tests.support.programs import listening, require_program

RECIPE = Path(__file__).parents[3] / "examples" / "shop" / "nginx.conf"

_MAIN = """
{user} daemon off; worker_processes 1; pid nginx.pid; error_log stderr warn;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  upstream room {{ server 127.0.0.1:{room}; }}
  upstream origin {{ server 127.0.0.1:{origin}; }}
{recipe}
}}
"""
# A worker of root's nginx would become somebody who may not look into the test's folder.
_USER = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
STRIP = RECIPE.with_name("strip.conf")


@asynccontextmanager
async def nginx(folder: Path, *, room: int, origin: int) -> AsyncGenerator[int]:
    """Run nginx; the port that it listens on."""
    program = require_program("nginx", package="nginx")
    port = free_port()
    recipe = RECIPE.read_text().replace("$listen_port", str(port))
    recipe = recipe.replace("$site_name", "shop.test")
    # Under load a room that is there may take longer than what the recipe waits for it.
    recipe = re.sub(r"_timeout \d+ms;", f"_timeout {limit(10):.0f}s;", recipe)
    (folder / "strip.conf").write_text(STRIP.read_text())
    (folder / "nginx.conf").write_text(
        _MAIN.format(user=_USER, room=room, origin=origin, recipe=recipe)
    )
    command = (program, "-p", str(folder), "-c", "nginx.conf", "-e", "stderr")
    async with listening(port, folder, *command):
        yield port

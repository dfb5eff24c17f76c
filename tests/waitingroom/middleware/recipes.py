"""Caddy, Envoy and Traefik run as their pages say, in front of a room and a site."""

import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.patience import limit
from tests.support.ports import free_port
from tests.support.programs import listening, require_program

PAGES = Path(__file__).parents[3] / "docs" / "how-to"
_RECIPE = re.compile(r"^```(?:yaml|caddyfile)\n(.+?)^```$", re.MULTILINE | re.DOTALL)


@asynccontextmanager
async def caddy(folder: Path, *, room: int, origin: int) -> AsyncGenerator[int]:
    """Run Caddy; the port that it listens on."""
    port = free_port()
    file = folder / "Caddyfile"
    # Other tests may have the port of the interface that lets Caddy be changed while it runs.
    alone = "{\n\tadmin off\n\tpersist_config off\n}\n"
    file.write_text(alone + _recipe("caddy", {"8080": room, "8000": origin, "8088": port}))
    here = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    async with _running(port, folder, "caddy", "run", "--config", str(file), env=here):
        yield port


@asynccontextmanager
async def envoy(folder: Path, *, room: int, origin: int) -> AsyncGenerator[int]:
    """Run Envoy; the port that it listens on."""
    port = free_port()
    recipe = _recipe("envoy", {"8080": room, "8000": origin, "8088": port})
    file = folder / "envoy.yaml"
    # Under load a room that is there may take longer than what the recipe waits for it.
    file.write_text(re.sub(r"timeout: 0\.\d+s", f"timeout: {limit(10):.0f}s", recipe))
    options = ("--disable-hot-restart", "--concurrency", "1", "--log-level", "error")
    async with _running(port, folder, "envoy", "-c", str(file), *options):
        yield port


@asynccontextmanager
async def traefik(folder: Path, *, room: int, origin: int) -> AsyncGenerator[int]:
    """Run Traefik; the port that it listens on."""
    port = free_port()
    file = folder / "shop.yaml"
    file.write_text(_recipe("traefik", {"8080": room, "8000": origin}))
    options = (
        f"--entrypoints.web.address=127.0.0.1:{port}",
        f"--providers.file.filename={file}",
        "--global.checknewversion=false",
        "--global.sendanonymoususage=false",
    )
    async with _running(port, folder, "traefik", *options):
        yield port


def _recipe(page: str, ports: dict[str, int]) -> str:
    """What the page says to save, on ports that are free here."""
    (recipe,) = _RECIPE.findall((PAGES / f"{page}.md").read_text())
    return re.sub(r"\b(8080|8000|8088)\b", lambda found: str(ports[found[0]]), recipe)


def _running(
    port: int, folder: Path, name: str, *args: str, **options: Any
) -> AbstractAsyncContextManager[None]:
    here = Path(sys.executable).with_name(name)
    program = str(here) if here.exists() else require_program(name, package=name)
    # A proxy may listen before it has read its routes.
    asked = b"GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n"
    return listening(port, folder, program, *args, asked=asked, **options)

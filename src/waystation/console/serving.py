"""The console as its settings say."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from waystation.console.app import App
from waystation.console.options import ConsoleOptions
from waystation.console.settings import ConsoleSettings
from waystation.core.clock import SystemClock
from waystation.core.errors import InvalidSetting
from waystation.core.http.addresses import is_loopback
from waystation.core.http.server import serving
from waystation.core.operators.oidc import Provider
from waystation.core.operators.oidc_settings import oidc_options
from waystation.core.operators.roles import Role
from waystation.core.runtime.loop import Loop
from waystation.core.store.connection import Store
from waystation.files import Layout


@asynccontextmanager
async def running(
    settings: ConsoleSettings,
    store: Store,
    *,
    namespaces: Sequence[str] = ("bridge",),
    layouts: Sequence[Layout] = (Layout(),),
    history: str = "",
) -> AsyncGenerator[App]:
    """Serve the console for as long as the block runs."""
    require_safe(settings)
    oidc = oidc_options(settings.oidc, "console.oidc")
    options = ConsoleOptions(
        sign_in=settings.sign_in,
        local_role=Role(settings.local_role),
        prefixes=settings.prefixes,
        namespaces=namespaces,
        layouts=layouts,
        history=history,
        secure_cookies=settings.secure_cookies,
        trusted_proxies=settings.trusted_proxies,
        webhook_networks=settings.webhook_networks,
    )
    app = App(store, options, provider=Provider(oidc, SystemClock()) if oidc else None)
    loops = (
        Loop(app.console.sampler.take_if_due, every_s=options.every_s, jitter=0.05),
        Loop(app.console.dispatcher.carry, every_s=1.0),
    )
    tasks = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        async with serving(app, host=settings.host, port=settings.port):
            yield app
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await app.close()


def require_safe(settings: ConsoleSettings) -> None:
    """Refuse to be reached from other machines without a sign-in."""
    if not settings.sign_in and not is_loopback(settings.host):
        raise InvalidSetting(
            f"console.host is {settings.host}, which other machines can reach; "
            "that needs console.sign_in"
        )

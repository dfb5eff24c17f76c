"""A busy shop behind a console: queues of all products, workers, failures and a waiting room."""

import asyncio
import random
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from playwright.async_api import Browser, BrowserContext, Page

from tests.pipeline.ask import lakes
from tests.support.patience import limit
from tests.support.ports import free_port
from waystation import bullmq, files, routing
from waystation.bullmq import FlowNode, NewJob, Queue, Schedule
from waystation.console.app import App
from waystation.console.serving import running
from waystation.console.settings import ConsoleSettings
from waystation.core.store.connection import Store, connect
from waystation.pipeline.tables import LEDGER
from waystation.waitingroom import JoinRequest, Room, RoomOptions

HOSTILE = "<img src=x onerror=window.harmed=1>"
"""What must be shown as it is, wherever it stands."""

_CODE = """class ProviderConnectionError(ConnectionError):
    pass

async def handle(job, shop):
    await job.log(f"order {job.data['order']} taken")
    if job.name == "charge" and shop.broken:
        host = f"10.0.4.{job.data['order'] % 250}"
        raise ProviderConnectionError(f"payment gateway {host} did not answer")
    return {"ok": True}
"""
_names: dict[str, Any] = {"__name__": "shop.payments.gateways"}
# Under a name of its own, so that no path of this machine is in a picture.
exec(compile(_CODE, "shop/orders.py", "exec"), _names)


class Shop:
    """The console with everything behind it, and browsers in front."""

    def __init__(self, browser: Browser, store: Store, app: App, url: str) -> None:
        self.store = store
        self.app = app
        self.url = url
        self.broken = True
        self.failed: str = ""
        """The id of a job that failed."""
        self.flow: str = ""
        self.past: str = ""
        """The id of a job of the queue mail that only the history knows."""
        self.complaints: list[str] = []
        """What browsers wrote to their consoles."""
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def page(self, view: str = "overview", *, wait: bool = True, **more: Any) -> Page:
        """A browser that shows a view."""
        context = await self._browser.new_context(locale="en-GB", timezone_id="UTC", **more)
        self._contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(limit(30) * 1000)
        page.on("console", lambda said: self._note(said.type, said.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        if wait:
            await self.go(page, view)
        else:
            await page.goto(f"{self.url}/#/{view}")
        return page

    async def go(self, page: Page, view: str) -> None:
        """Show another view."""
        await page.goto(f"{self.url}/#/{view}")
        await page.wait_for_selector(f'[data-place="/{view}"][data-ready]')

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


@asynccontextmanager
async def shop(url: str, browser: Browser, folder: Path, **settings: Any) -> AsyncGenerator[Shop]:
    """A shop with some history, whose workers go on."""
    usual = ConsoleSettings(port=free_port(), local_role="admin")
    chosen = msgspec.structs.replace(usual, **settings)
    history = str(folder / "history")
    kept, past = _remembered()
    shutil.copytree(kept.name, history)
    async with await connect(url) as store, running(chosen, store, history=history) as app:
        built = Shop(browser, store, app, f"http://localhost:{chosen.port}")
        async with AsyncExitStack() as open_now:
            await _stock(built, open_now, folder)
            built.past = past
            await app.console.directory.look()
            for _ in range(3):
                await app.console.sampler.take()
            yield built
            await built.close()


@cache
def _remembered() -> tuple[TemporaryDirectory[str], str]:
    """A history of some jobs to be copied, and the id of one of the queue mail."""
    kept = TemporaryDirectory()
    return kept, _remember(kept.name)


def _remember(root: str) -> str:
    dice = random.Random(9)
    jobs = [lakes.job(dice, 9000 + number) for number in range(40)]
    lakes.keep(root, jobs)
    counted = {"product": "bullmq", "queue": "mail", "hour": lakes.START, "acknowledged": 9}
    row = {"terminal": 7, "removed": 0, "visible": 1, "lost": 1, "duplicated": 0, "gaps": 0}
    account = {**dict.fromkeys(LEDGER.names), **counted, **row, "lost_ids": ["17"], "clean": False}
    lakes.store(root, LEDGER, [account], 0)
    return next(job["job_id"] for job in jobs if job["queue"] == "mail")


async def _stock(shop: Shop, open_now: AsyncExitStack, folder: Path) -> None:
    store = shop.store
    orders = await open_now.enter_async_context(Queue("orders", store))
    mail = await open_now.enter_async_context(Queue("mail", store))
    reports = await open_now.enter_async_context(Queue("reports", store))
    flows = await open_now.enter_async_context(bullmq.FlowProducer(store))
    worker = bullmq.Worker(
        "orders", partial(_names["handle"], shop=shop), store, name="till-1", concurrency=4
    )
    await open_now.enter_async_context(worker)
    names = ("reserve", "charge", "pack")
    added = await orders.add_many(
        NewJob(name, {"order": n, "tenant": "acme", "items": [{"sku": f"A-{n}", "n": 2}]},
               bullmq.JobOptions(attempts=1))
        for n in range(8) for name in names
    )  # fmt: skip
    async with asyncio.timeout(limit(60)):
        while sum((await orders.counts("completed", "failed")).values()) < len(added):
            await asyncio.sleep(0.02)
    shop.failed = (await orders.get_jobs("failed"))[-1].id
    await mail.add_many(NewJob("send", {"to": f"user{n}@example.com"}) for n in range(40))
    await mail.add(HOSTILE, {HOSTILE: HOSTILE}, priority=1)
    await mail.add("remind", {"to": "later@example.com"}, delay=3600)
    await mail.pause()
    nightly = Schedule(pattern="0 3 * * *", tz="Europe/Vienna")
    await reports.schedulers.upsert("nightly", nightly, name="sales", data={"of": "yesterday"})
    await reports.schedulers.upsert("heartbeat", Schedule(every=3600), name="ping")
    children = [FlowNode(name=f"resize {n} px", queue="images") for n in (320, 640, 1280)]
    made = await flows.add(FlowNode(name="album", queue="reports", children=children))
    shop.flow = made.job.id
    routed = await open_now.enter_async_context(routing.Queue(store))
    await routed.add("encode", {"film": 7}, target=routing.Target(capabilities=("gpu",)))
    await routed.add("translate", {"text": "hello"}, target=routing.Target(region=("eu",)))
    taken = await open_now.enter_async_context(files.Queue(store))
    for n in range(3):
        (folder / f"import-{n}.csv").write_text(str(n))
        await taken.add(folder / f"import-{n}.csv")
    room = Room("sale", store)
    await room.open(RoomOptions(name="Spring sale", admission_rate=2.0, newcomers_per_minute=0))
    for n in range(30):
        await room.join(JoinRequest(key=f"visitor-{n}", secret="secret", address=f"10.2.0.{n}"))

"""The console when something is wrong or slow: no store, no session, a late answer, a long name."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from playwright.async_api import Browser, Page, Route

from tests.browser.console_scene import HOSTILE, Shop
from tests.browser.harness import complaints, picture
from tests.support.patience import limit
from tests.support.ports import free_port
from waystation.bullmq import Job, JobFailed, Queue, Schedule, Worker
from waystation.bullmq.redis.keys import QueueKeys
from waystation.console.serving import running
from waystation.console.settings import ConsoleSettings
from waystation.console.webhooks import Hooks
from waystation.core.operators.roles import Role
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral
from waystation.core.webhooks.dispatch import FailedDelivery, State
from waystation.waitingroom import Room, RoomOptions

NARROW = {"width": 390, "height": 844}
LONG = f"{HOSTILE}{'n' * 200}"


@asynccontextmanager
async def console(url: str, browser: Browser, **settings: Any) -> AsyncGenerator[Shop]:
    """A console over a store with one queue, which has one job."""
    usual = ConsoleSettings(port=free_port(), local_role="admin")
    chosen = msgspec.structs.replace(usual, **settings)
    async with await connect(url) as store, running(chosen, store) as app:
        async with Queue("mail", store) as mail:
            await mail.add("send", {})
        opened = Shop(browser, store, app, f"http://localhost:{chosen.port}")
        yield opened
        await opened.close()


@pytest.mark.slow
async def test_a_store_that_is_away_is_said_and_what_was_seen_stays(
    own_server: Ephemeral, browser: Browser
) -> None:
    async with console(own_server.url, browser) as built:
        page = await built.page("overview", viewport=NARROW)
        row = page.get_by_role("row").filter(has_text="mail")
        await row.wait_for()
        own_server.kill()
        said = page.locator("#away")
        await page.locator("#away", has_text="What you see is from").wait_for()
        assert await row.count() == 1
        assert await complaints(page) == []
        await picture(page, "console-away")
        # A view that cannot be shown says so, and is tried again by itself.
        await page.goto(f"{built.url}/#/store")
        await page.get_by_role("heading", name="No answer").wait_for()
        assert await complaints(page) == []
        own_server.restart()
        await page.get_by_role("heading", name="Store", exact=True).wait_for()
        await page.wait_for_selector('body[data-live="on"]')
        assert await said.inner_text() == ""


async def test_a_session_that_ends_leads_to_the_sign_in_and_back(
    redis_url: str, browser: Browser
) -> None:
    async with console(redis_url, browser, sign_in=True) as built:
        operators = built.app.console.operators
        page = await built.page("queues/bullmq/mail", wait=False)
        await _sign_in(page, await operators.issue("anna", Role.OPERATOR))
        await page.get_by_role("heading", name="mail", exact=True).wait_for()
        await operators.withdraw("anna")
        await page.get_by_text("Your session has ended").wait_for()
        assert await complaints(page) == []
        await picture(page, "console-session-ended")
        await _sign_in(page, await operators.issue("bert", Role.VIEWER))
        await page.get_by_role("heading", name="mail", exact=True).wait_for()
        assert "bert · viewer" in await page.inner_text("header")


async def _sign_in(page: Page, key: str) -> None:
    await page.get_by_label("Key").fill(key)
    await page.get_by_role("button", name="Sign in").click()


async def test_a_slow_answer_is_waited_for_and_comes_too_late_for_another_view(
    redis_url: str, browser: Browser
) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(route: Route) -> None:
        asked.set()
        await may_answer.wait()
        await route.continue_()

    async with console(redis_url, browser) as built:
        page = await built.page("failures")
        await page.route("**/api/v1/overview", slow)
        await page.goto(f"{built.url}/#/overview")
        await asyncio.wait_for(asked.wait(), limit(60))
        await page.locator("main").get_by_text("Loading").wait_for()
        await built.go(page, "schedulers")
        async with page.expect_response("**/api/v1/overview"):
            may_answer.set()
        await built.go(page, "workers")
        await built.go(page, "schedulers")
        assert await page.title() == "Schedulers · waystation"
        assert await page.get_by_role("heading", level=1).all_inner_texts() == ["Schedulers"]


async def test_a_button_that_has_begun_is_not_pressed_twice(
    redis_url: str, browser: Browser
) -> None:
    counted, may_answer = asyncio.Event(), asyncio.Event()
    times = 0

    async def slow(route: Route) -> None:
        nonlocal times
        times += 1
        counted.set()
        await may_answer.wait()
        await route.continue_()

    async with console(redis_url, browser) as built:
        page = await built.page("queues/bullmq/mail")
        await page.route("**/actions/pause", slow)
        button = page.get_by_role("button", name="Pause", exact=True)
        await button.click()
        await asyncio.wait_for(counted.wait(), limit(60))
        await button.click()
        may_answer.set()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Cancel").click()
        await dialog.wait_for(state="detached")
        assert times == 1


@pytest.mark.slow
async def test_what_is_reached_by_keyboard_is_not_drawn_anew(
    redis_url: str, browser: Browser
) -> None:
    async with console(redis_url, browser) as built:
        async with Queue("mail", built.store) as mail:
            await mail.schedulers.upsert("nightly", Schedule(pattern="0 3 * * *"))
        page = await built.page("overview")
        await page.clock.install()
        await built.go(page, "schedulers")
        await page.get_by_role("button", name="Pause").focus()
        await page.keyboard.press("Tab")
        focused = "document.activeElement.textContent"
        assert await page.evaluate(focused) == "Run now"
        await page.clock.fast_forward(60_000)
        await page.evaluate("fetch('/api/v1/schedulers').then((answer) => answer.text())")
        assert await page.evaluate(focused) == "Run now"


async def test_the_state_that_is_looked_at_stands_in_the_address(
    redis_url: str, browser: Browser
) -> None:
    async with console(redis_url, browser) as built:
        page = await built.page("queues/bullmq/mail", viewport=NARROW)
        await page.get_by_role("button", name="failed").click()
        await page.get_by_text("No failed jobs").wait_for()
        assert page.url.endswith("#/queues/bullmq/mail?state=failed")
        await page.reload()
        await page.get_by_text("No failed jobs").wait_for()
        tab = page.get_by_role("button", name="failed")
        assert await tab.get_attribute("aria-pressed") == "true"
        # On a telephone it is scrolled to.
        box = await tab.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < NARROW["width"]


async def test_the_menu_of_a_telephone_opens_and_closes(redis_url: str, browser: Browser) -> None:
    async with console(redis_url, browser) as built:
        page = await built.page("overview", viewport=NARROW)
        menu = page.get_by_role("button", name="Menu")
        await menu.click()
        assert await menu.get_attribute("aria-expanded") == "true"
        await page.keyboard.press("Escape")
        assert await menu.get_attribute("aria-expanded") == "false"
        await menu.click()
        await page.get_by_role("link", name="Failures").click()
        await page.wait_for_selector('[data-view-name="failures"][data-ready]')
        assert await menu.get_attribute("aria-expanded") == "false"
        assert await page.evaluate("document.activeElement.id") == "main"


async def test_an_empty_rate_closes_no_room(redis_url: str, browser: Browser) -> None:
    async with console(redis_url, browser) as built:
        room = Room("sale", built.store)
        await room.open(RoomOptions(name="Spring sale", admission_rate=2.0))
        page = await built.page("rooms")
        await page.get_by_label("Per minute").fill("")
        await page.get_by_role("button", name="Change the rate").click()
        assert await page.get_by_role("dialog").count() == 0
        await page.get_by_label("Per minute").fill("90")
        await page.get_by_role("button", name="Change the rate").click()
        await page.get_by_role("dialog").get_by_text("At most 90 visitors a minute").wait_for()
        await page.get_by_role("dialog").get_by_role("button", name="Change the rate").click()
        await page.get_by_text("90/min allowed").wait_for()


async def test_two_queues_of_one_name_are_two_rows(redis_url: str, browser: Browser) -> None:
    async with console(redis_url, browser, prefixes=("bull", "trial")) as built:
        async with Queue("mail", built.store, prefix="trial") as trial:
            await trial.add("try", {})
            await trial.add("try", {})
        page = await built.page("overview")
        await page.get_by_role("link", name="trial:mail").click()
        await page.get_by_role("heading", name="trial:mail", level=1).wait_for()
        await page.get_by_role("link", name="try").first.wait_for()
        assert await page.get_by_role("table", name="Jobs").get_by_role("link").count() == 2


async def test_long_names_fit(redis_url: str, browser: Browser) -> None:
    name = "invoices-of-the-southern-region-" * 5
    async with console(redis_url, browser) as built:
        async with Queue(name, built.store) as long:
            job = await long.add("send-the-reminder-of-" * 8, {"to": "x" * 300})
            await long.schedulers.upsert("every-night-" * 8, Schedule(pattern="0 3 * * *"))
        page = await built.page("overview", viewport=NARROW)
        await page.get_by_role("row").filter(has_text=name).wait_for()
        found: dict[str, list[str]] = {}
        views = {
            "overview": "overview", "schedulers": "schedulers", "store": "store",
            "queue": f"queues/bullmq/{name}", "job": f"queues/bullmq/{name}/{job.id}",
            "search": "search?q=send",
        }  # fmt: skip
        for kind, view in views.items():
            await built.go(page, view)
            await picture(page, f"console-long-{kind}")
            if said := await complaints(page):
                found[view] = said
        assert found == {}


async def test_hostile_names_errors_and_logs_are_text_on_every_screen(
    redis_url: str, browser: Browser
) -> None:
    async def handler(job: Job) -> None:
        await job.log(HOSTILE)
        raise ValueError(HOSTILE)

    async with console(redis_url, browser) as built:
        store = built.store
        async with Queue(LONG, store) as queue:
            failed = await queue.add(HOSTILE, {HOSTILE: [HOSTILE]}, attempts=1)
            await queue.schedulers.upsert(HOSTILE, Schedule(pattern="0 3 * * *"), name=HOSTILE)
            async with Worker(LONG, handler, store):
                with pytest.raises(JobFailed):
                    await queue.wait(failed.id, limit(60))
            # One that a worker holds which is gone, so that both are shown.
            held = await queue.add(HOSTILE, {})
            keys = QueueKeys(LONG)
            await store.ask("LREM", keys.wait, 0, held.id)
            await store.ask("LPUSH", keys.active, held.id)
            await store.ask("HSET", keys.of(held.id).job, "pb", HOSTILE)
        await Room("sale", store).open(RoomOptions(name=HOSTILE))
        hooks = Hooks(store)
        hook = await hooks.add(f"https://hooks.example.org/{HOSTILE}", [], ["bullmq/nowhere"])
        wrong = [FailedDelivery(at_ms=1_790_000_000_000, error=HOSTILE)]
        await hooks.write(hook.id, State(failures=1, next_ms=2**45, recent=wrong))
        await built.app.console.directory.look()
        await built.app.console.sampler.take()
        page = await built.page("overview", viewport=NARROW)
        named = quote(LONG, safe="")
        silent: list[str] = []
        wide: list[str] = []
        for view in ("overview", "failures", f"search?q={quote('state:failed')}", "schedulers",
                     "workers", "rooms", "store", "webhooks", f"queues/bullmq/{named}?state=failed",
                     f"queues/bullmq/{named}/{failed.id}"):  # fmt: skip
            await built.go(page, view)
            if HOSTILE not in await page.inner_text("main"):
                silent.append(view)
            if await page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
                wide.append(view)
        assert (silent, wide) == ([], [])
        assert await page.evaluate("window.harmed") is None
        assert await page.locator("main img").count() == 0
        assert built.complaints == []

"""The console in a real browser: every view, light and dark, wide and narrow, with live data."""

import asyncio
import random
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.browser.console_scene import HOSTILE, Shop, shop
from tests.browser.harness import complaints, picture
from tests.pipeline.ask import lakes
from tests.support.patience import limit
from tests.support.ports import free_port
from waystation.bullmq import NewJob, Queue, Schedule
from waystation.console.actions import taking
from waystation.console.actions.runs import Mode
from waystation.console.webhooks import Hooks
from waystation.core.operators.roles import Role
from waystation.core.webhooks.dispatch import FailedDelivery, State

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
VIEWS = (
    "overview", "failures", "search?q=data.tenant:acme", "schedulers", "workers", "routing",
    "rooms", "ledger", "pipeline", "store", "webhooks", "audit", "queues/bullmq/mail",
    "queues/bullmq/orders", "queues/routing/bridge", "queues/files/jobqueue", "job", "flow",
)  # fmt: skip


@pytest.fixture
async def stocked(redis_url: str, browser: Browser, tmp_path: Path) -> AsyncGenerator[Shop]:
    async with shop(redis_url, browser, tmp_path) as built:
        yield built


def _place(shop: Shop, view: str) -> str:
    named = {
        "job": f"queues/bullmq/orders/{shop.failed}",
        "flow": f"queues/bullmq/reports/{shop.flow}",
    }
    return named.get(view, view)


# Colours depend on the scheme, and what is cut off on the size: two of the four show both.
@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(WIDE, "light", id="wide-light"),
        pytest.param(NARROW, "dark", id="narrow-dark"),
        pytest.param(WIDE, "dark", id="wide-dark", marks=pytest.mark.long),
        pytest.param(NARROW, "light", id="narrow-light", marks=pytest.mark.long),
    ],
)
async def test_every_view_can_be_read_by_everybody(
    stocked: Shop, size: dict[str, int], scheme: str
) -> None:
    page = await stocked.page(color_scheme=scheme, viewport=size)
    found: dict[str, list[str]] = {}
    for view in VIEWS:
        await stocked.go(page, _place(stocked, view))
        name = view.split("?")[0].replace("/", "-")
        await picture(page, f"console-{name}-{scheme}-{size['width']}")
        if said := await complaints(page):
            found[view] = said
    assert found == {}
    assert stocked.complaints == []


async def test_hostile_texts_are_shown_and_do_nothing(stocked: Shop) -> None:
    page = await stocked.page("queues/bullmq/mail?state=prioritized")
    await page.get_by_role("link", name=HOSTILE).click()
    await page.wait_for_selector('[data-view-name="job"][data-ready]')
    assert HOSTILE in await page.inner_text("h1")
    for view in ("overview", "search?q=onerror", "failures", "audit"):
        await stocked.go(page, view)
    assert await page.evaluate("window.harmed") is None
    assert stocked.complaints == []


async def test_the_overview_follows_what_happens(stocked: Shop) -> None:
    page = await stocked.page()
    await page.wait_for_selector('body[data-live="on"]')
    async with Queue("invoices", stocked.store) as late:
        await late.add("print", {})
        row = page.get_by_role("row").filter(has_text="invoices")
        await row.wait_for()
        assert await row.get_by_role("cell").nth(1).inner_text() == "1"


async def test_charts_go_back_into_the_history_and_return(stocked: Shop) -> None:
    page = await stocked.page("queues/bullmq/mail")
    await page.get_by_role("button", name="7 days").click()
    await page.get_by_role("heading", name="Jobs per hour").wait_for()
    assert await complaints(page) == []
    await page.get_by_role("button", name="Live").click()
    await page.get_by_role("heading", name="Longest wait").wait_for()


async def test_a_job_that_is_gone_is_shown_as_the_history_remembers_it(stocked: Shop) -> None:
    page = await stocked.page(f"queues/bullmq/mail/{stocked.past}")
    await page.get_by_text("the history remembers it").wait_for()
    assert await complaints(page) == []


async def test_a_job_is_added_and_bad_json_is_told_before_it_is_sent(stocked: Shop) -> None:
    page = await stocked.page("queues/bullmq/mail")
    await page.get_by_role("button", name="Add a job").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("greet")
    await dialog.get_by_label("Data").fill("{to: ada}")
    await dialog.get_by_role("button", name="Add").click()
    await dialog.get_by_text("Data must be JSON").wait_for()
    await dialog.get_by_label("Data").fill('{"to": "ada"}')
    await dialog.get_by_label("Options").fill('{"attempts": 0}')
    await dialog.get_by_role("button", name="Add").click()
    await dialog.get_by_text("Attempts must be at least 1").wait_for()
    await dialog.get_by_label("Options").fill('{"delay": 3600}')
    assert await complaints(page) == []
    await dialog.get_by_role("button", name="Add").click()
    await page.get_by_text("was added").wait_for()
    async with Queue("mail", stocked.store) as mail:
        [job] = [each for each in await mail.get_jobs("delayed") if each.name == "greet"]
        assert job.data == {"to": "ada"}
        await stocked.go(page, f"queues/bullmq/mail/{job.id}")
        await page.get_by_role("button", name="Edit the data").click()
        for text, refusal in (
            ("{", "Data must be JSON"),
            ('{"n": 12345678901234567890}', "too long for a browser"),
        ):
            await dialog.get_by_label("Data").fill(text)
            await dialog.get_by_role("button", name="Save").click()
            await dialog.get_by_text(refusal).wait_for()
        await dialog.get_by_label("Data").fill('{"to": "grace"}')
        await dialog.get_by_role("button", name="Save").click()
        await page.get_by_text("The data was changed").wait_for()
        await job.refresh()
        assert job.data == {"to": "grace"}
    # What was asked goes with the view that asked.
    await page.get_by_role("button", name="Edit the data").click()
    await page.go_back()
    await dialog.wait_for(state="detached")


async def test_a_scheduler_is_changed(stocked: Shop) -> None:
    async with Queue("mail", stocked.store) as mail:
        await mail.schedulers.upsert("hourly", Schedule(every=3600), name="tick", data={"n": 1})
        page = await stocked.page("schedulers")
        row = page.get_by_role("row").filter(has_text="hourly")
        await row.get_by_role("button", name="Edit").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Pattern: minute").fill("30 4 * * *")
        await dialog.get_by_label("Time zone").fill("Europe/Vienna")
        await dialog.get_by_label("every so many seconds").fill("")
        assert await complaints(page) == []
        await dialog.get_by_role("button", name="Save").click()
        await row.get_by_text("30 4 * * *").wait_for()
        changed = await mail.schedulers.get("hourly")
    assert changed is not None
    assert (changed.pattern, changed.tz, changed.data) == ("30 4 * * *", "Europe/Vienna", {"n": 1})


async def test_a_scheduler_is_paused_and_resumed(stocked: Shop) -> None:
    page = await stocked.page("schedulers")
    row = page.get_by_role("row").filter(has_text="nightly")
    await row.get_by_role("button", name="Pause").click()
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await row.get_by_text("paused").wait_for()
    assert await complaints(page) == []
    await picture(page, "console-scheduler-paused")
    async with Queue("reports", stocked.store) as reports:
        known = await reports.schedulers.get("nightly")
        assert known is not None
        assert known.paused_by == "this machine"
    await row.get_by_role("button", name="Resume").click()
    await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    await row.get_by_role("button", name="Pause").wait_for()


async def test_all_that_match_are_counted_and_run_again(stocked: Shop) -> None:
    page = await stocked.page("search?q=error:gateway")
    bulk = page.get_by_role("group", name="All that match")
    assert await bulk.get_by_role("button").all_inner_texts() == ["Retry\u2026", "Remove\u2026"]
    await bulk.get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text("matches 8 jobs for this: orders 8").wait_for()
    await dialog.get_by_text("and 3 more").wait_for()
    assert await complaints(page) == []
    await picture(page, "console-all-that-match")
    stocked.broken = False
    await dialog.get_by_label("Reason").fill("the gateway is back")
    await dialog.get_by_role("button", name="Retry 8 jobs").click()
    await page.get_by_text("8 jobs retried.").wait_for()
    # Also to whoever comes later, and what was found is looked for again by itself.
    await page.reload()
    await page.get_by_text("8 jobs retried.").wait_for()
    await page.wait_for_selector('body[data-live="on"]')
    # The history may have said long before that nothing is found in it.
    await page.get_by_text("Nothing found", exact=True).wait_for()
    assert await complaints(page) == []
    await stocked.go(page, "audit")
    assert "the gateway is back" in await page.inner_text("main")


async def test_more_than_can_be_counted_are_done_without_asking_again(
    stocked: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_COUNTED", 3)
    monkeypatch.setattr(taking, "MOST_AT_ONCE", 2)
    stocked.broken = False
    page = await stocked.page("queues/bullmq/orders?state=failed")
    await page.get_by_label("Pick all jobs of this page").click()
    await page.get_by_text("8 picked").wait_for()
    await stocked.go(page, "search?q=error:gateway")
    await page.get_by_role("group", name="All that match").get_by_text("Retry").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text("matches at least 3 jobs for this").wait_for()
    await dialog.get_by_role("button", name="Retry all").click()
    await page.get_by_text("8 jobs retried.").wait_for()
    await stocked.go(page, "audit")
    await page.wait_for_selector('body[data-live="on"]')
    assert stocked.complaints == []


async def test_a_search_of_the_past_says_that_there_is_more_and_shows_it(stocked: Shop) -> None:
    dice = random.Random(3)
    more = [lakes.job(dice, 5000 + number) | {"name": "reckon"} for number in range(60)]
    lakes.keep(str(stocked.app.console.options.history), more, first=10)
    page = await stocked.page("search?q=name:reckon")
    await page.get_by_text("More than 50 found").wait_for()
    await page.get_by_role("button", name="Show more of the past").click()
    await page.get_by_text("60 found").wait_for()
    assert await page.get_by_role("button", name="Show more of the past").count() == 0


async def test_removing_all_that_match_asks_for_their_number(stocked: Shop) -> None:
    page = await stocked.page("search?q=name:send")
    await page.get_by_role("group", name="All that match").get_by_text("Remove").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("to confirm").fill("4")
    await dialog.get_by_role("button", name="Remove 40 jobs").click()
    async with Queue("mail", stocked.store) as mail:
        assert (await mail.counts())["waiting"] == 40
        await dialog.get_by_label("to confirm").fill("40")
        await dialog.get_by_role("button", name="Remove 40 jobs").click()
        await page.get_by_text("40 jobs removed.").wait_for()
        assert (await mail.counts())["waiting"] == 0


async def test_a_webhook_is_made_tried_revived_and_removed(
    redis_url: str, browser: Browser, tmp_path: Path
) -> None:
    async with shop(redis_url, browser, tmp_path, webhook_networks=("127.0.0.0/8",)) as built:
        await _try_webhooks(built, f"http://127.0.0.1:{free_port()}/jobs")


async def _try_webhooks(stocked: Shop, url: str) -> None:
    page = await stocked.page("webhooks")
    await page.get_by_text("No webhooks").wait_for()
    await page.get_by_role("button", name="Add a webhook").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("URL").fill("https://10.0.0.1/jobs")
    await dialog.get_by_label("added", exact=True).check()
    assert await complaints(page) == []
    await picture(page, "console-webhook-new")
    await dialog.get_by_role("button", name="Add").click()
    await dialog.get_by_text("leads inside").wait_for()
    await dialog.get_by_label("URL").fill(url)
    # Of a queue that is not there, so that nothing is sent while the test looks.
    await dialog.get_by_label("Only these queues").fill("bullmq/nowhere")
    await dialog.get_by_role("button", name="Add").click()
    await page.get_by_text("Keep this secret").wait_for()
    assert (await page.locator("#secret").input_value()).startswith("whs_")
    assert await complaints(page) == []
    await page.get_by_role("button", name="I have kept it").click()
    card = page.get_by_role("article").filter(has_text=url)
    await card.get_by_text("added, cancelled, completed, dead, failed").wait_for()
    await card.get_by_role("button", name="Send a test event").click()
    await page.get_by_text("The test event was not taken").wait_for()

    hooks = Hooks(stocked.store)
    [(hook, _)] = await hooks.every()
    wrong = [FailedDelivery(at_ms=1_790_000_000_000, error="the answer was 503")]
    await hooks.write(
        hook.id, State(failures=30, dead=True, last_error="the answer was 503", recent=wrong)
    )
    await stocked.go(page, "overview")
    await stocked.go(page, "webhooks")
    await card.get_by_text("given up").wait_for()
    await card.get_by_text("the answer was 503").wait_for()
    assert await complaints(page) == []
    await picture(page, "console-webhook-dead")
    await card.get_by_role("button", name="Revive").click()
    await page.get_by_text("It is tried again at once").wait_for()
    await card.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await page.get_by_text("No webhooks").wait_for()


async def test_a_queue_is_resumed_after_a_question_and_the_answer_is_written_down(
    stocked: Shop,
) -> None:
    page = await stocked.page("queues/bullmq/mail")
    await page.get_by_role("button", name="Resume").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("maintenance is over")
    await dialog.get_by_role("button", name="Resume").click()
    await page.get_by_role("button", name="Pause").wait_for()
    await page.get_by_role("heading", name="mail", exact=True).wait_for()
    await page.locator(".why", has_text="has nobody who works on it").wait_for()
    async with Queue("mail", stocked.store) as mail:
        assert not await mail.is_paused()
    await stocked.go(page, "audit")
    assert "maintenance is over" in await page.inner_text("main")


async def test_what_nothing_brings_back_asks_for_the_name(stocked: Shop) -> None:
    page = await stocked.page("queues/bullmq/mail")
    await page.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("to confirm").fill("male")
    await dialog.get_by_role("button", name="Drain").click()
    async with Queue("mail", stocked.store) as mail:
        assert (await mail.counts())["waiting"] == 40
        await dialog.get_by_label("to confirm").fill("mail")
        await dialog.get_by_role("button", name="Drain").click()
        await page.get_by_text("Drain: done").wait_for()
        assert (await mail.counts())["waiting"] == 0


async def test_a_failing_group_is_tried_mended_and_run_again(stocked: Shop) -> None:
    page = await stocked.page("failures")
    group = page.get_by_role("row").filter(has_text="ConnectionError")
    assert await group.get_by_role("cell").nth(2).inner_text() == "8"
    assert "payment gateway <address> did not answer" in await group.inner_text()
    await group.get_by_role("link", name="Jobs").click()
    await page.get_by_text("8 found among 8 jobs").wait_for()
    await page.get_by_text("payment gateway <address> did not answer").wait_for()
    await page.go_back()
    await _retry(page, "A canary of five")
    await page.get_by_text("the rest was left alone").wait_for()
    async with Queue("orders", stocked.store) as orders:
        async with asyncio.timeout(limit(60)):
            while (await orders.counts("failed"))["failed"] < 8:
                await asyncio.sleep(0.02)
        stocked.broken = False
        await _retry(page, "All: five first")
        await page.get_by_text("Nothing has failed").wait_for()
        assert (await orders.counts())["failed"] == 0


async def test_a_redrive_does_not_call_jobs_completed_that_were_removed(stocked: Shop) -> None:
    console = stocked.app.console
    async with Queue("orders", stocked.store) as orders:
        job = await orders.add("charge", job_id="taken-away")
        await job.cancel()
        await orders.remove(job.id)
        queue = await console.directory.find("bullmq", "orders")
        drive = console.redrives.start(queue, "any", Mode.ONE, [job.id], by="ada")
        async with asyncio.timeout(limit(30)):
            while drive.state == "running":
                await asyncio.sleep(0.02)
    page = await stocked.page("failures")
    text = await page.get_by_role("region", name="Under way").inner_text()
    assert "0 of 1 completed, 0 failed again, 1 removed or not stored any more" in text
    assert "Completed but for 1 job" in text
    assert "All of them were completed" not in text


async def _retry(page: Page, how: str) -> None:
    await page.get_by_role("row").get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(how).check()
    assert await complaints(page) == []
    await dialog.get_by_role("button", name="Retry").click()
    await page.get_by_text("The retry has begun").last.wait_for()


async def test_what_is_in_trouble_stands_first_with_its_reason(stocked: Shop) -> None:
    page = await stocked.page()
    names = page.locator("td.named a")
    texts = await names.all_inner_texts()
    troubled = page.locator("tr.marked")
    many = await troubled.count()
    assert 0 < many < len(texts)
    assert sorted(texts[:many]) == sorted(await troubled.locator("a").all_inner_texts())
    await page.get_by_text("was paused").wait_for()
    room = page.get_by_role("row").filter(has_text="waiting room")
    await room.get_by_text("is served by no process").wait_for()
    await page.get_by_role("button", name="By name").click()
    assert await names.all_inner_texts() == sorted(texts)
    await page.get_by_role("columnheader", name="Ready").get_by_role("button").click()
    assert (await names.all_inner_texts())[0] == "mail"


async def test_all_jobs_of_a_state_are_picked_and_the_server_goes_on_alone(
    stocked: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_COUNTED", 30)
    monkeypatch.setattr(taking, "MOST_AT_ONCE", 7)
    async with Queue("mail", stocked.store) as mail:
        await mail.add_many(NewJob("send", {"n": n}) for n in range(60))
        page = await stocked.page("queues/bullmq/mail?state=waiting")
        await page.get_by_label("Pick all jobs of this page").check()
        await page.get_by_role("button", name="Pick all 100").click()
        await page.get_by_text("All 100 waiting jobs picked").wait_for()
        assert await complaints(page) == []
        bulk = page.get_by_role("group", name="Picked jobs")
        await bulk.get_by_role("button", name="Remove").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_text("100 jobs. What is added").wait_for()
        await dialog.get_by_label("to confirm").fill("100")
        await dialog.get_by_role("button", name="Remove 100 jobs").click()
        await dialog.wait_for(state="detached")
        await page.close()
        other = await stocked.page("overview")
        await (
            other.get_by_role("region", name="Under way").get_by_text("100 jobs removed").wait_for()
        )
        assert (await mail.counts())["waiting"] == 0


async def test_limits_of_all_workers_are_set_and_taken_away(stocked: Shop) -> None:
    async with Queue("mail", stocked.store) as mail:
        page = await stocked.page("queues/bullmq/mail")
        for most, starts in ((3, 40), (0, 0)):
            await page.get_by_role("button", name="Limits").click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_label("Active jobs at once").fill(str(most))
            await dialog.get_by_label("Jobs that start").fill(str(starts))
            await dialog.get_by_label("in so many seconds").fill("2")
            assert await complaints(page) == []
            await dialog.get_by_role("button", name="Set").click()
            await dialog.wait_for(state="detached")
            limit_now = await mail.limits.get_rate_limit()
            assert (await mail.limits.get_concurrency() or 0) == most
            assert (limit_now.max if limit_now else 0) == starts
            await page.get_by_text("40 in 2 s").wait_for(state="attached" if most else "detached")


async def test_a_job_is_cloned_with_other_data(stocked: Shop) -> None:
    page = await stocked.page(f"queues/bullmq/orders/{stocked.failed}")
    await page.get_by_role("button", name="Clone").click()
    dialog = page.get_by_role("dialog")
    assert '"tenant": "acme"' in await dialog.get_by_label("Data").input_value()
    await dialog.get_by_label("Name").fill("reserve")
    await dialog.get_by_label("Data").fill('{"order": 99}')
    await dialog.get_by_role("button", name="Add").click()
    await page.get_by_text("Another job like it was added").wait_for()
    async with Queue("orders", stocked.store) as orders:
        async with asyncio.timeout(limit(30)):
            while not (found := [j for j in await orders.get_jobs() if j.data.get("order") == 99]):
                await asyncio.sleep(0.02)
        assert (found[0].name, found[0].max_attempts) == ("reserve", 1)


async def test_the_keyboard_is_enough(stocked: Shop) -> None:
    page = await stocked.page()
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.className") == "skip"
    await page.keyboard.press("/")
    assert await page.evaluate("document.activeElement.id") == "find"
    await page.keyboard.type("id:" + stocked.failed + " queue:orders")
    await page.keyboard.press("Enter")
    await page.wait_for_selector('[data-view-name="search"][data-ready]')
    await page.get_by_role("link", name="charge").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_selector('[data-view-name="job"][data-ready]')
    assert "charge" in await page.inner_text("h1")


async def test_a_viewer_is_offered_no_action(
    redis_url: str, browser: Browser, tmp_path: Path
) -> None:
    async with shop(redis_url, browser, tmp_path, local_role="viewer") as built:
        page = await built.page("queues/bullmq/mail")
        for view in ("queues/bullmq/mail", "failures", "schedulers", "rooms", _place(built, "job")):
            await built.go(page, view)
            names = await page.locator("main button:not([aria-pressed])").all_inner_texts()
            assert names == [], view
        await built.go(page, "search?q=send")
        await page.get_by_role("table", name="Found jobs").wait_for()
        assert await page.get_by_role("group", name="All that match").count() == 0
        assert built.complaints == []


async def test_a_sign_in_with_a_key_leads_into_the_console(
    redis_url: str, browser: Browser, tmp_path: Path
) -> None:
    async with shop(redis_url, browser, tmp_path, sign_in=True) as built:
        key = await built.app.console.operators.issue("anna", Role.OPERATOR)
        page = await built.page("overview", wait=False)
        await page.get_by_label("Key").fill("wrk_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_text("The key is not valid").wait_for()
        assert await complaints(page) == []
        await picture(page, "console-sign-in")
        await page.get_by_label("Key").fill(key)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_selector('[data-view-name="overview"][data-ready]')
        assert "anna · operator" in await page.inner_text("header")
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Key").wait_for()

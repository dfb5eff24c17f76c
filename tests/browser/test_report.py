"""A written report in a real browser: one file that draws its charts without a network."""

import datetime as dt
from pathlib import Path

from playwright.async_api import Browser, Page, ViewportSize

from tests.pipeline.test_report import FACTS, NOW
from waystation.pipeline.reports.page import html_report
from waystation.pipeline.reports.parts import Series, chart, whole_page

SIZE: ViewportSize = {"width": 600, "height": 800}


async def opened(browser: Browser, folder: Path, text: str) -> tuple[Page, list[str]]:
    """The page, and all that it complains about or asks for besides itself."""
    file = folder / "report.html"
    file.write_text(text)
    page = await browser.new_page(timezone_id="Asia/Tokyo", viewport=SIZE)
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: said.append(request.url))
    await page.goto(file.as_uri())
    said.remove(file.as_uri())
    return page, said


async def test_a_report_draws_every_series_and_needs_nothing_else(
    browser: Browser, tmp_path: Path
) -> None:
    page, said = await opened(browser, tmp_path, html_report(FACTS))
    figures = await page.locator("figure").all()
    assert [await each.locator("svg polyline").count() for each in figures] == [3, 3, 3, 2]
    assert await page.locator(".key").all_text_contents() == [
        *("completed", "retried", "failed for good"), *("median", "95 %", "99 %") * 2,
        "busy", "needed",
    ]  # fmt: skip
    assert said == []


async def test_without_scripts_the_tables_stay_and_the_charts_say_what_they_need(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(html_report(FACTS))
    page = await browser.new_page(java_script_enabled=False)
    await page.goto(file.as_uri())
    text = await page.inner_text("body")
    assert text.count("The chart needs JavaScript.") == 4
    assert "card <n> refused" in text


async def test_times_far_apart_stand_on_tenfold_steps_and_a_missing_one_breaks_its_line(
    browser: Browser, tmp_path: Path
) -> None:
    times = [NOW + n * dt.timedelta(hours=1) for n in range(5 * 24)]
    slow = [9.0, None, *[2.5] * (len(times) - 3), None]
    series = [Series("fast", "teal", [0.005] * len(times)), Series("slow", "plum", slow)]
    page, said = await opened(
        browser, tmp_path, whole_page("Waits", [chart("Wait", times, series, timed=True)])
    )
    steps, days = ["1 ms", "10 ms", "100 ms", "1 s", "10 s"], ["2 Mar", "3 Mar", "4 Mar", "5 Mar"]
    assert (await page.locator(".tick").all_text_contents())[:-1] == [*steps, *days]
    assert [await page.locator(f".line.{kind}").count() for kind in ("teal", "plum")] == [1, 2]
    area = await page.locator("svg").bounding_box()
    assert area is not None
    await page.mouse.move(area["x"] + area["width"] - 1, area["y"] + 50)
    assert await page.locator(".read-out tspan").all_text_contents() == [
        "6 Mar 2026, 11:00:00 UTC", "fast 5 ms", "slow \N{EN DASH}",
    ]  # fmt: skip
    assert said == []

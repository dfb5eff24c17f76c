"""A line for the invited, in a site's own clothes."""

import base64
import random

import pytest

from tests.browser.harness import Harness, complaints, picture, shows
from waystation.waitingroom.http.context import ThemeStore
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.pages.theme import Theme
from waystation.waitingroom.visitor import Lane

LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 40"><rect width="120" height="40" '
    'rx="8" fill="#7a1f5c"/><text x="60" y="27" font-family="sans-serif" font-size="20" '
    'fill="#fff" text-anchor="middle">Aurora</text></svg>'
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_code_opens_the_line_and_a_wrong_one_is_told(harness: Harness, scheme: str) -> None:
    looks = Theme(
        accent="#7a1f5c",
        logo="data:image/svg+xml;base64," + base64.b64encode(LOGO.encode()).decode(),
        text={"en": "Presale for members of the Aurora club. Two tickets each."},
        support="https://help.test/",
    )
    await ThemeStore().put(harness.service.room, looks)
    await harness.service.room.store.write({"invite_only": "1", "name": "Aurora: the presale"})
    [code] = await Codes(harness.service.room).make("club", 1, bits=random.Random(3), lane=Lane.VIP)
    page = await harness.visitor(color_scheme=scheme, viewport={"width": 1000, "height": 700})
    await harness.arrive(page)
    await shows(page, "invite")
    assert await complaints(page) == []
    await picture(page, f"invited-{scheme}")
    await page.fill("#code", "WRONG-CODE")
    await page.click("#join button")
    await page.wait_for_selector("#banner:not([hidden])")
    assert "is not valid" in await page.inner_text("#banner")
    await page.fill("#code", code.lower())
    await page.click("#join button")
    await shows(page, "waiting")
    assert (await harness.service.room.state()).lanes == (0, 0, 1, 0)
    assert await complaints(page) == []

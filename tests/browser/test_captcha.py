"""The box of a CAPTCHA on the waiting page."""

from msgspec.structs import replace
from playwright.async_api import Browser

from tests.browser.conftest import built
from tests.browser.harness import complaints, picture, shows
from tests.support.ports import free_port
from tests.waitingroom.http.harness import OPTIONS
from waystation.core.http.exchange import Receive, Scope, Send
from waystation.core.http.server import serving
from waystation.core.settings.section import Secret
from waystation.waitingroom.http.options import CaptchaOptions
from waystation.waitingroom.pages.words import languages

_BOX = b"""window.hcaptcha = { render(box, { sitekey, callback }) {
  const button = document.createElement('button');
  Object.assign(button, { id: 'box', textContent: `I am a person (${sitekey})` });
  button.addEventListener('click', () => callback('person'));
  box.append(button);
} };"""


async def provider(scope: Scope, receive: Receive, send: Send) -> None:
    """A box, and who says what came of it."""
    if scope["type"] != "http":
        return
    is_script = scope["path"] == "/api.js"
    body = _BOX if is_script else b'{"success": true}'
    kind = b"text/javascript" if is_script else b"application/json"
    headers = [(b"content-type", kind)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def test_whoever_confirms_to_be_a_person_gets_a_place(
    redis_url: str, browser: Browser
) -> None:
    port, theirs = free_port(), free_port()
    captcha = CaptchaOptions(
        provider="hcaptcha",
        site_key="the-site",
        secret=Secret("s"),
        script_url=f"http://127.0.0.1:{theirs}/api.js",
        verify_url=f"http://127.0.0.1:{theirs}/siteverify",
    )
    async with (
        serving(provider, host="127.0.0.1", port=theirs),
        built(redis_url, browser, port, options=replace(OPTIONS, captcha=captcha)) as harness,
    ):
        await harness.service.room.store.write({"newcomers_per_minute": "1"})
        await harness.service.visitor("127.0.0.1").join()
        page = await harness.visitor()
        await harness.arrive(page)
        await shows(page, "captcha")
        assert await page.inner_text("#text") == languages()["en"]["text_captcha"]
        await page.wait_for_selector("#box")
        assert await page.inner_text("#box") == "I am a person (the-site)"
        assert await complaints(page) == []
        await picture(page, "captcha")
        await page.click("#box")
        await shows(page, "waiting")
        assert await page.locator("#box").count() == 0

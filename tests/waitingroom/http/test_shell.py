"""The shell of the waiting page: made once for everybody, kept by browsers and caches."""

import base64
import gzip
import hashlib
import re

import httpx2
import pytest

from tests.waitingroom.http.harness import HOST, QUEUE, RoomService
from waystation.waitingroom.pages.words import languages

WAIT = f"/wait/{QUEUE}"
ZIPPED = {"accept-encoding": "gzip"}


async def test_everybody_is_sent_the_same_page_and_may_keep_it(service: RoomService) -> None:
    new, waiting = service.visitor(), service.visitor("10.1.1.2")
    await waiting.join()
    pages = [await person.get(WAIT) for person in (new, waiting)]
    assert pages[0].content == pages[1].content
    for page in pages:
        assert page.headers["cache-control"].startswith("public, max-age=")
        assert page.headers["vary"] == "accept-encoding, accept-language"
        assert "set-cookie" not in page.headers
    tag = pages[0].headers["etag"]
    same = await new.get(WAIT, headers={"if-none-match": f'"another", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)


async def test_it_is_sent_compressed_to_those_who_read_that(service: RoomService) -> None:
    person = service.visitor()
    whole = await person.get(WAIT, headers={"accept-encoding": "identity"})
    packed = await person.get(WAIT, headers=ZIPPED)
    assert "content-encoding" not in whole.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == whole.content
    assert int(packed.headers["content-length"]) < len(whole.content) / 2
    assert int(packed.headers["content-length"]) == len(gzip.compress(whole.content, 9, mtime=0))
    assert packed.headers["etag"] != whole.headers["etag"]


async def test_only_its_own_style_and_script_run_named_by_their_hashes(
    service: RoomService,
) -> None:
    page = await service.visitor().get(WAIT)
    policy = page.headers["content-security-policy"]
    assert "nonce" not in policy
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        [text] = re.findall(rf"<{element}>(.*?)</{element}>", page.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy


async def test_each_language_has_its_own(service: RoomService) -> None:
    person = service.visitor()
    for lang, words in languages().items():
        page = await person.get(WAIT, headers={"accept-language": lang})
        assert f'<html lang="{lang}" dir="{words["_dir"]}">' in page.text
        assert page.content == (await person.get(f"{WAIT}?lang={lang}")).content


async def test_a_change_by_the_operator_is_a_new_page(service: RoomService) -> None:
    person, admin = service.visitor(), await service.operator()
    before = await person.get(WAIT)
    changes: list[dict[str, object]] = [
        {"name": "The other shop"},
        {"return_hosts": ["shop.example"]},
    ]
    seen = {before.headers["etag"]}
    for change in changes:
        changed = await admin.http.patch(f"/api/v1/admin/queues/{QUEUE}", json=change)
        assert changed.status_code == 200
        await service.room.state()
        now = await person.get(WAIT, headers={"if-none-match": before.headers["etag"]})
        if "name" in change:
            assert now.status_code == 200
            assert "The other shop" in now.text
            seen.add(now.headers["etag"])
        else:
            assert "form-action 'self' shop.example;" in now.headers["content-security-policy"]
    looks = f"/api/v1/admin/queues/{QUEUE}/page"
    assert (await admin.http.put(looks, json={"accent": "#7a1f5c"})).status_code == 200
    await service.room.state()
    coloured = await person.get(WAIT)
    assert "--accent: #7a1f5c" in coloured.text
    assert coloured.headers["etag"] not in seen


@pytest.mark.parametrize("status", ["429", "503"])
async def test_what_is_answered_like_an_error_is_kept_by_nobody(
    service: RoomService, status: str
) -> None:
    await service.room.store.write({"page_status": status})
    await service.room.state()
    page = await service.visitor().get(WAIT)
    assert page.status_code == int(status)
    assert page.headers["cache-control"] == "no-store"
    assert "retry-after" in page.headers
    assert "etag" not in page.headers


def _leads_on(page: httpx2.Response) -> str:
    found = re.search(r'<noscript><meta http-equiv="refresh" content="0; url=(.*?)">', page.text)
    assert found is not None
    return found[1].replace("&amp;", "&")


async def test_browsers_without_scripts_are_led_on_and_keep_where_they_want_to_go(
    service: RoomService,
) -> None:
    person = service.visitor()
    came = f"{WAIT}?target=/checkout&lang=de"
    where = _leads_on(await person.get(came))
    page = await person.get(where, headers={"referer": f"https://{HOST}{came}"})
    assert page.headers["cache-control"] == "no-store"
    assert "script-src 'none'" in page.headers["content-security-policy"]
    assert languages()["de"]["head_new"] in page.text
    sealed = re.search(r'name="r" value="([^"]+)"', page.text)
    assert sealed is not None
    facts = await person.get(f"{WAIT}/facts?r={sealed[1]}")
    assert facts.json()["target"] == "/checkout"


@pytest.mark.parametrize(
    "referer",
    ["https://evil.test/wait/shop?target=/x", f"https://{HOST}/wait/other?target=/x", "nonsense"],
)
async def test_where_to_go_is_believed_from_the_page_itself_alone(
    service: RoomService, referer: str
) -> None:
    page = await service.visitor().get(f"{WAIT}?plain=1", headers={"referer": referer})
    assert page.status_code == 200
    assert 'name="r"' not in page.text

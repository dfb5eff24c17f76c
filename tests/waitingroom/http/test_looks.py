"""How a site makes the waiting page its own."""

import base64
import re

import msgspec
import pytest

from tests.waitingroom.http.hands import QUEUE, House
from waystation.core.errors import InvalidOption
from waystation.waitingroom.pages.theme import Theme

PAGE = f"/api/v1/admin/queues/{QUEUE}/page"
LOGO = "data:image/png;base64," + base64.b64encode(b"\x89PNG a picture").decode()


async def test_a_site_brings_its_colour_its_logo_and_its_words(house: House) -> None:
    admin = await house.operator()
    looks = {
        "accent": "#7a1f5c", "logo": LOGO, "support": "https://help.test/line",
        "text": {"en": "Doors <open> at eight", "de": "Einlass um acht"}, "language": "de",
    }  # fmt: skip
    assert (await admin.http.put(PAGE, json=looks)).json()["accent"] == "#7a1f5c"
    person = house.visitor()
    page = await person.get(f"/wait/{QUEUE}?lang=en")
    assert "--accent: #7a1f5c" in page.text
    assert f'src="{LOGO}"' in page.text
    assert "Doors &lt;open&gt; at eight" in page.text
    assert 'href="https://help.test/line"' in page.text
    assert "img-src data:" in page.headers["content-security-policy"]
    # Whose language nobody knows is spoken to in the site's.
    assert "Einlass um acht" in (await person.get(f"/wait/{QUEUE}")).text

    assert (await admin.http.delete(PAGE)).status_code == 204
    assert "#7a1f5c" not in (await person.get(f"/wait/{QUEUE}")).text


async def test_looks_can_be_tried_out_and_nothing_is_kept(house: House) -> None:
    viewer = await house.operator("viewer")
    tried = await viewer.post(f"{PAGE}/preview?status=full&lang=fr", {"accent": "#123456"})
    assert tried.status_code == 200
    assert "La file est pleine" in tried.text
    assert "--accent: #123456" in tried.text
    assert (await viewer.get(PAGE)).json()["accent"] == ""
    assert (await viewer.http.put(PAGE, json={"accent": "#123456"})).status_code == 403
    assert (await viewer.post(f"{PAGE}/preview?status=waiting", {})).status_code == 422


@pytest.mark.parametrize(
    "wrong",
    [
        {"accent": "red"},
        {"accent": "#ffee00"},
        {"accent_dark": "#222222"},
        {"accent_dark": "dark"},
        {"accent": "#000000;}*{display:none"},
        {"logo": "https://elsewhere.test/logo.png"},
        {"logo": "data:text/html;base64,AAAA"},
        {"logo": "data:image/png;base64," + "A" * 70_000},
        {"support": "javascript:alert(1)"},
        {"support": "https://a@b.test/"},
        {"support": 'https://b.test/"onclick="x'},
        {"text": {"en": "x" * 1001}},
        {"text": {"en<script>": "x"}},
        {"language": "../etc"},
        {"html": "<b>"},
    ],
)
async def test_37_nothing_but_looks_can_be_brought(house: House, wrong: dict[str, object]) -> None:
    admin = await house.operator()
    assert (await admin.http.put(PAGE, json=wrong)).status_code in (400, 413, 422)


def test_a_colour_that_cannot_be_read_is_refused_and_lightened_for_the_night() -> None:
    with pytest.raises(InvalidOption, match=r"contrast of 4\.5 with white"):
        Theme(accent="#ffffcc")
    with pytest.raises(InvalidOption, match=r"with the dark page \(#202221\), got 1\.\d\d; #"):
        Theme(accent_dark="#003366")
    css = Theme(accent="#003366").css()
    assert "--accent: #003366" in css
    night = css.partition("dark")[2]
    assert "#003366" not in night
    assert "--accent: #ffcc66" in Theme(accent="#003366", accent_dark="#ffcc66").css()
    assert Theme(accent_dark="#ffcc66").css().startswith("@media (prefers-color-scheme: dark)")


@pytest.mark.parametrize("colour", ["#ffffcc", "#ffee00", "#00ff00", "#777777", "#003366"])
@pytest.mark.parametrize("field", ["accent", "accent_dark"])
def test_a_colour_that_cannot_be_read_comes_back_with_one_that_can(field: str, colour: str) -> None:
    try:
        msgspec.convert({field: colour}, Theme)
    except InvalidOption as refused:
        [better] = re.findall(r"(#[0-9a-f]{6}) would do", str(refused))
        msgspec.convert({field: better}, Theme)

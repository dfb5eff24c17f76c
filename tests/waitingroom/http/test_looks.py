"""How a site makes the waiting page its own."""

import base64
import re

import msgspec
import pytest

from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.errors import InvalidOption
from waystation.waitingroom.pages.theme import Theme

PAGE = f"/api/v1/admin/queues/{QUEUE}/page"
FONT = "data:font/woff2;base64," + base64.b64encode(b"wOF2 a font").decode()
LOGO = "data:image/png;base64," + base64.b64encode(b"\x89PNG a picture").decode()


async def test_a_site_brings_its_colour_its_logo_and_its_words(service: RoomService) -> None:
    admin = await service.operator()
    looks = {
        "accent": "#7a1f5c", "logo": LOGO, "support": "https://help.test/line",
        "text": {"en": "Doors <open> at eight", "de": "Einlass um acht"}, "language": "de",
    }  # fmt: skip
    assert (await admin.http.put(PAGE, json=looks)).json()["accent"] == "#7a1f5c"
    person = service.visitor()
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


async def test_looks_can_be_tried_out_and_nothing_is_kept(service: RoomService) -> None:
    viewer = await service.operator("viewer")
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
        {"background": "https://elsewhere.test/sea.jpg"},
        {"background": "data:image/svg+xml;base64,AAAA"},
        {"background": "data:image/png;base64," + "A" * 200_000},
        {"font": "Inter; } * { display: none"},
        {"font": 'Inter", url(x'},
        {"font": "a, b, c, d, e, f"},
        {"font_file": "data:font/ttf;base64,AAAA"},
        {"font_file": "data:font/woff2;base64,AAAA) } body {"},
    ],
)
async def test_37_nothing_but_looks_can_be_brought(
    service: RoomService, wrong: dict[str, object]
) -> None:
    admin = await service.operator()
    assert (await admin.http.put(PAGE, json=wrong)).status_code in (400, 413, 422)


async def test_a_site_brings_its_font_and_a_picture(service: RoomService) -> None:
    admin = await service.operator()
    picture = "data:image/jpeg;base64," + "B" * 120_000
    looks = {"font": "Inter, Gill Sans, serif", "font_file": FONT, "background": picture}
    assert (await admin.http.put(PAGE, json=looks)).status_code == 200
    page = await service.visitor().get(f"/wait/{QUEUE}")
    assert f"url({FONT}) format" in page.text
    family = 'font-family: "site", "Inter", "Gill Sans", Georgia, "Times New Roman", serif;'
    assert family in page.text
    assert f"url({picture}) center" in page.text
    assert "font-src data:" in page.headers["content-security-policy"]
    assert 'font-family: "Inter", system-ui,' in Theme(font="Inter").css()
    assert "font-face" not in Theme(font="Inter").css()


async def test_a_form_shows_looks_in_a_frame_of_the_same_site_alone(service: RoomService) -> None:
    viewer = await service.operator("viewer")
    theme = {"theme": '{"accent": "#123456"}'}
    shown = await viewer.http.post(f"{PAGE}/preview", data=theme)
    assert shown.status_code == 200
    assert "--accent: #123456" in shown.text
    assert "frame-ancestors 'self'; sandbox" in shown.headers["content-security-policy"]
    foreign = {"sec-fetch-site": "cross-site"}
    refused = await viewer.http.post(f"{PAGE}/preview", data=theme, headers=foreign)
    assert refused.status_code == 403
    spoiled = await viewer.http.post(f"{PAGE}/preview", data={"theme": "{"})
    assert spoiled.status_code == 400


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

"""Theme of a room's page: a site's colours, pictures, font and text, never its markup."""

import re
from base64 import b64decode
from typing import TypeAlias

import msgspec

from waystation.core.errors import InvalidOption

LONGEST_TEXT = 1000
LARGEST_LOGO = 48_000
LARGEST_BACKGROUND = 120_000
LARGEST_FONT = 80_000
MOST_FONTS = 5
LEAST_CONTRAST = 4.5
"""What WCAG asks for between text and what is behind it."""
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
_DATA = re.compile(r"data:([a-z0-9]+/[a-z0-9+]+);base64,([A-Za-z0-9+/]+=*)")
_PICTURES = ("image/png", "image/jpeg", "image/webp")
_FONT = re.compile(r"[A-Za-z][A-Za-z0-9 -]{0,39}")
_FALLBACKS = {
    "serif": 'Georgia, "Times New Roman", serif',
    "monospace": "ui-monospace, Menlo, Consolas, monospace",
    "rounded": 'ui-rounded, "Arial Rounded MT Bold", "Segoe UI", system-ui, sans-serif',
    "sans-serif": 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
}
"""What every machine has something for."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?")
_Rgb: TypeAlias = tuple[int, int, int]
_LIGHT, _DARK = (255, 255, 255), (32, 34, 33)
"""What the accent stands on by day and by night."""


class Theme(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a site may change about the waiting page."""

    accent: str = ""
    """The colour of buttons and of the progress, as #rrggbb; it must be readable with white."""
    accent_dark: str = ""
    """The same on the dark page, where it must be readable; the accent made lighter by default."""
    logo: str = ""
    """A small picture as a data: address, so that the page asks nobody for anything."""
    background: str = ""
    """A picture behind the page as a data: address; nothing that is to be read stands on it."""
    font: str = ""
    """Fonts by name, the first there counts; the last may be serif, monospace or rounded."""
    font_file: str = ""
    """The site's own font as a data: address (WOFF2), which comes before those."""
    text: dict[str, str] = {}
    """A paragraph of the site's own, by language."""
    support: str = ""
    """The https address of whoever helps."""
    language: str = ""
    """What is spoken to those whose language is not known."""

    def __post_init__(self) -> None:
        if self.accent:
            _check_colour("accent", self.accent, _LIGHT, "white")
        if self.accent_dark:
            _check_colour("accent_dark", self.accent_dark, _DARK, "the dark page (#202221)")
        if self.logo:
            _check_data("logo", self.logo, (*_PICTURES, "image/svg+xml"), LARGEST_LOGO)
        if self.background:
            _check_data("background", self.background, _PICTURES, LARGEST_BACKGROUND)
        if self.font_file:
            _check_data("font_file", self.font_file, ("font/woff2",), LARGEST_FONT)
        names = _names(self.font)
        if len(names) > MOST_FONTS or not all(_FONT.fullmatch(each) for each in names):
            raise InvalidOption(
                f"font must be up to {MOST_FONTS} names with commas in between, got {self.font!r}"
            )
        if any(len(each) > LONGEST_TEXT for each in self.text.values()):
            raise InvalidOption(f"text may have {LONGEST_TEXT} characters in each language")
        if not all(_LANGUAGE.fullmatch(each) for each in (*self.text, self.language or "en")):
            raise InvalidOption("languages are named by their tags, such as en or zh-Hant")
        if self.support and not re.fullmatch(r"https://[^\s\"'<>@\\]{1,500}", self.support):
            raise InvalidOption("support must be an https address without a user in it")

    def css(self) -> str:
        """What the page's style sheet ends with."""
        day = f":root {{ --accent: {self.accent}; }}\n" if self.accent else ""
        night = self.accent_dark or (_readable(self.accent, _DARK) if self.accent else "")
        if night:
            day += (
                "@media (prefers-color-scheme: dark) "
                f"{{ :root {{ --accent: {night}; --on-accent: #101312; }} }}\n"
            )
        return day + self._font_css() + self._background_css()

    def _font_css(self) -> str:
        names = _names(self.font)
        if not names and not self.font_file:
            return ""
        last = names.pop() if names and names[-1] in _FALLBACKS else "sans-serif"
        own = ""
        if self.font_file:
            own = (
                '@font-face { font-family: "site"; font-display: swap; '
                f'src: url({self.font_file}) format("woff2"); }}\n'
            )
            names.insert(0, "site")
        family = ", ".join([*(f'"{each}"' for each in names), _FALLBACKS[last]])
        return f"{own}body {{ font-family: {family}; }}\n"

    def _background_css(self) -> str:
        if not self.background:
            return ""
        # What lies under the card in the page as it comes gets one of its own.
        return (
            f"body {{ background: var(--paper) url({self.background}) center / cover fixed; }}\n"
            "footer { padding-block-start: .5rem; } footer details { background: var(--card); "
            "border: 1px solid var(--line); border-radius: 1rem; }\n"
        )


def _check_colour(name: str, colour: str, behind: _Rgb, place: str) -> None:
    if not _COLOUR.fullmatch(colour):
        raise InvalidOption(f"{name} must be a colour such as #0b5a4a, got {colour!r}")
    found = _contrast(_rgb(colour), behind)
    if found < LEAST_CONTRAST:
        raise InvalidOption(
            f"{name} must have a contrast of {LEAST_CONTRAST} with {place}, got {found:.2f}; "
            f"{_readable(colour, behind)} would do"
        )


def _readable(colour: str, behind: _Rgb) -> str:
    """The colour, made lighter or darker until it can be read on what is behind it."""
    made = _rgb(colour)
    step = _darker if _luminance(behind) > 0.5 else _lighter
    while _contrast(made, behind) < LEAST_CONTRAST:
        made = (step(made[0]), step(made[1]), step(made[2]))
    return _hex(made)


def _check_data(name: str, address: str, kinds: tuple[str, ...], most: int) -> None:
    found = _DATA.fullmatch(address)
    if found is None or found[1] not in kinds:
        raise InvalidOption(f"{name} must be data:{', '.join(kinds)};base64,…")
    try:
        size = len(b64decode(found[2], validate=True))
    except ValueError:
        raise InvalidOption(f"{name} must be written in base64") from None
    if size > most:
        raise InvalidOption(f"{name} may have {most} bytes, got {size}")


def _names(font: str) -> list[str]:
    return [each.strip() for each in font.split(",")] if font else []


def _rgb(colour: str) -> _Rgb:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _hex(colour: _Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _lighter(part: int) -> int:
    return min(255, part + max(1, (255 - part) // 10))


def _darker(part: int) -> int:
    return max(0, part - max(1, part // 10))


def _contrast(one: _Rgb, other: _Rgb) -> float:
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: _Rgb) -> float:
    red, green, blue = (
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4
        for each in (part / 255 for part in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

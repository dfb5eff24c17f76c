"""Theme of a room's page: a site's colour, logo and text, never its markup."""

import re
from base64 import b64decode

import msgspec

from waystation.core.errors import InvalidOption

LONGEST_TEXT = 1000
LARGEST_LOGO = 48_000
LEAST_CONTRAST = 4.5
"""What WCAG asks for between text and what is behind it."""
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
_LOGO = re.compile(r"data:image/(png|jpeg|webp|svg\+xml);base64,([A-Za-z0-9+/]+=*)")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?")
_LIGHT, _DARK = (255, 255, 255), (32, 34, 33)
"""What the accent stands on by day and by night."""


class Theme(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a site may change about the waiting page."""

    accent: str = ""
    """The colour of buttons and of the progress, as #rrggbb; it must be readable with white."""
    logo: str = ""
    """A small picture as a data: address, so that the page asks nobody for anything."""
    text: dict[str, str] = {}
    """A paragraph of the site's own, by language."""
    support: str = ""
    """The https address of whoever helps."""
    language: str = ""
    """What is spoken to those whose language is not known."""

    def __post_init__(self) -> None:
        if self.accent:
            self._check_accent()
        if self.logo:
            _check_logo(self.logo)
        if any(len(each) > LONGEST_TEXT for each in self.text.values()):
            raise InvalidOption(f"text may have {LONGEST_TEXT} characters in each language")
        if not all(_LANGUAGE.fullmatch(each) for each in (*self.text, self.language or "en")):
            raise InvalidOption("languages are named by their tags, such as en or zh-Hant")
        if self.support and not re.fullmatch(r"https://[^\s\"'<>@\\]{1,500}", self.support):
            raise InvalidOption("support must be an https address without a user in it")

    def css(self) -> str:
        """What the page's style sheet ends with."""
        if not self.accent:
            return ""
        day, night = _rgb(self.accent), _rgb(self.accent)
        while _contrast(night, _DARK) < LEAST_CONTRAST:
            night = (_lighter(night[0]), _lighter(night[1]), _lighter(night[2]))
        return (
            f":root {{ --accent: {_hex(day)}; }}\n@media (prefers-color-scheme: dark) "
            f"{{ :root {{ --accent: {_hex(night)}; --on-accent: #101312; }} }}\n"
        )

    def _check_accent(self) -> None:
        if not _COLOUR.fullmatch(self.accent):
            raise InvalidOption(f"accent must be a colour such as #0b5a4a, got {self.accent!r}")
        found = _contrast(_rgb(self.accent), _LIGHT)
        if found < LEAST_CONTRAST:
            raise InvalidOption(
                f"accent must have a contrast of {LEAST_CONTRAST} with white, got {found:.2f}"
            )


def _check_logo(logo: str) -> None:
    found = _LOGO.fullmatch(logo)
    if found is None:
        raise InvalidOption("logo must be data:image/png, jpeg, webp or svg+xml;base64,…")
    try:
        size = len(b64decode(found[2], validate=True))
    except ValueError:
        raise InvalidOption("logo must be written in base64") from None
    if size > LARGEST_LOGO:
        raise InvalidOption(f"logo may have {LARGEST_LOGO} bytes, got {size}")


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _lighter(part: int) -> int:
    return min(255, part + max(1, (255 - part) // 10))


def _contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: tuple[int, int, int]) -> float:
    red, green, blue = (
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4
        for each in (part / 255 for part in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

"""Headers of every page: nothing runs, loads or frames it that is not ours."""

import hashlib
from base64 import b64encode
from functools import lru_cache

from waystation.core.http.exchange import NO_STORE, Headers

PAGE = b"text/html; charset=utf-8"


def page_headers(
    *,
    style: str,
    script: str = "",
    leads_to: str = "'self'",
    workers: str = "'none'",
    embeds: str = "",
    frames: str = "",
    kept: tuple[bytes, bytes] = NO_STORE,
) -> Headers:
    """The headers of a page with this style sheet and this script, and with no others.

    `embeds` are the addresses of a CAPTCHA, which the page may load if it has to; `frames` what it
    may show in a frame besides.
    """
    runs = _hashed(script) if script else "'none'"
    theirs = f" {embeds}" if embeds else ""
    framed = f"frame-src {embeds or frames}; " if embeds or frames else ""
    policy = (
        f"default-src 'none'; script-src {runs}{theirs}; style-src {_hashed(style)}; "
        f"img-src data:; font-src data:; connect-src 'self'{theirs}; {framed}worker-src {workers}; "
        f"form-action {leads_to}; base-uri 'none'; frame-ancestors 'none'"
    )
    return [
        kept,
        (b"content-security-policy", policy.encode()),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"x-robots-tag", b"noindex"),
    ]


@lru_cache(maxsize=256)
def _hashed(text: str) -> str:
    """How a policy names an element with this text."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

"""Secrets among the settings, and addresses without them."""

import re

HIDDEN = "***"

_HOST = r"(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d{1,5})?"
_HOSTS_AND_PATH = re.compile(rf"(?:{_HOST}(?:,{_HOST})*)?(?:/[\w./%~-]*)?")


class Secret(str):
    """Text that is masked wherever it is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(HIDDEN)


def without_secrets(url: str) -> str:
    """A store's address as it may be printed: nothing that could be a part of a password."""
    scheme, found, rest = url.partition("://")
    if not found or not re.fullmatch(r"[a-z][a-z+]*", scheme):
        return HIDDEN
    before, at, address = rest.rpartition("@")
    address, options, _ = address.partition("?")
    # An @ after the ? may belong to a password on either side of it, and a host that repeats the
    # password would show it.
    password = before.rpartition(":")[2]
    if (
        "?" in before
        or "#" in before
        or not _HOSTS_AND_PATH.fullmatch(address)
        or (password and password in address)
    ):
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{HIDDEN if at else ''}{at}{address}{options}{HIDDEN if options else ''}"

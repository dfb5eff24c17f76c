"""Deprecation: what goes on working for some versions, and says what to use instead."""

import warnings

from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)
_said: set[str] = set()


def deprecated(what: str, *, instead: str, since: str, gone_in: str) -> None:
    """Warn whoever calls the caller, and log it once for those who operate the program.

    `what` is a name of Python, a command or a setting; the versions are minor ones, such as "0.4".
    """
    text = f"{what} is deprecated since {since} and goes in waystation {gone_in}: use {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
    if what not in _said:
        _said.add(what)
        _log.warning("deprecated", hint=text)

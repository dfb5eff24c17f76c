"""Tables that cannot be read or written, told in one sentence."""

import re

from waystation.core.errors import HistoryError

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST = 300
_REMEDY = (
    "If the place is right and can be reached, files of it are damaged or missing: `waystation "
    "pipeline rebuild` builds silver and gold again from bronze"
)


def unreadable(error: Exception, place: str = "") -> HistoryError:
    """The error for a history whose files are damaged, or whose place cannot be reached."""
    reason = _COLOUR.sub("", str(error)).strip().splitlines()[0][:_LONGEST].strip(" :.")
    where = f" at {place}" if place else ""
    return HistoryError(f"the history{where} cannot be read or written: {reason}. {_REMEDY}")

"""Values and texts that any client may write into any member of a job."""

import json
from collections.abc import Iterable
from typing import Any

VALUES: list[Any] = [
    None, True, 0, -1, 2.5, 10**30, -(10**30), "", "null", "nan", "high", "2026-11-17T00:00:00Z",
    "\ud800", "\u0000", [], [None], [[]], ["x"], [{"id": None}], {}, {"null": None}, {"": []},
    {"$payload": 1}, {"id": [], "queueKey": {}},
]  # fmt: skip
"""What another language may write; its JSON has escapes for what is no whole character."""
WORDS = [
    *("1e999", "-1e999", "-0", "9" * 5_000),
    *("[" * 600 + "]" * 600, "[" * 2_000 + "]" * 2_000, '{"a":' * 300 + "1" + "}" * 300),
]
"""What only a text can say: numbers and depths beyond those of most readers."""
NO_JSON = ["", "{oops", "\x00", "text", "NaN", "Infinity"]
"""What a client may store where JSON is expected."""
JSON = [*map(json.dumps, VALUES), *WORDS]
TEXTS = [*JSON, *NO_JSON]


def json_of(members: dict[str, str], texts: Iterable[str] = TEXTS) -> Iterable[str]:
    """The JSON of jobs with these members, each with one that is something else."""
    for text in texts:
        for name in members:
            changed = {**members, name: text}
            yield "{" + ",".join(f'"{key}":{each}' for key, each in changed.items()) + "}"

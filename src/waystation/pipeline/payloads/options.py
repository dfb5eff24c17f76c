"""Options of payloads: what is kept of a job, and in which form."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.key_ring import NAME, KeyRing
from waystation.core.options import check_fields
from waystation.core.settings.section import Secret, Section
from waystation.pipeline.payloads.paths import JsonPath


class Action(StrEnum):
    """What becomes of a value."""

    KEEP = "keep"
    DROP = "drop"
    HASH = "hash"
    ENCRYPT = "encrypt"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of the values at a path, or of texts that match a pattern."""

    action: Action
    """`keep`, `drop`, `hash` or `encrypt`."""
    queue: str = "*"
    """Name or pattern of the queues that it holds for."""
    path: str = ""
    """Path in data, result and progress, such as `$.card.number` or `$.items[*].email`."""
    pattern: str = ""
    """Regular expression; every match in a text is replaced, also in reasons and logs."""

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.pattern):
            raise InvalidOption("a rule needs either a path or a pattern")
        if self.path:
            JsonPath.parse(self.path)
        else:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise InvalidOption(
                    f"pattern must be a regular expression ({error}), got {self.pattern!r}"
                ) from None
            if self.action is Action.KEEP:
                raise InvalidOption("keep needs a path; a text is kept by default")


class PayloadSettings(Section, frozen=True, kw_only=True):
    """What the history keeps of a job besides its events."""

    keep: bool = True
    """Whether data, options, results and logs are kept."""
    limit: int = 65_536
    """Most bytes of data or of a result; of a larger one only its size and hash are kept."""
    retain: int = 30
    """Days that payloads are kept; events and what is computed from them stay."""
    fields: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Fields by which jobs are found quickly, and their paths in the data."""
    rules: Sequence[Rule] = ()
    """What is dropped, hashed or encrypted before it is stored; the first rule that fits counts."""
    keys: Secret | None = None
    """Key ring for `hash` and `encrypt`: `name=base64`, separated by commas; the first one
    encrypts, the others still decrypt."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.limit < 1024:
            raise InvalidOption(f"limit must be at least 1024, got {self.limit}")
        if self.retain < 1:
            raise InvalidOption(f"retain must be at least 1, got {self.retain}")
        for name, path in self.fields.items():
            if not NAME.fullmatch(name):
                raise InvalidOption(f"fields: {name!r} must be lower-case letters, digits and _")
            JsonPath.parse(path)
        ring = KeyRing(self.keys)
        secret = [each for each in self.rules if each.action in (Action.HASH, Action.ENCRYPT)]
        if secret and not ring:
            raise InvalidOption(f"keys must be set, because a rule says {secret[0].action}")

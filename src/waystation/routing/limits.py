"""How much of one type may run."""

import msgspec

from waystation.core.options import at_least


class Limit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How much of one type may run; what is left out is not limited."""

    max_concurrent: int | None = None
    """At once, over all workers."""
    max_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_concurrent", "max_per_minute"):
            if (value := getattr(self, name)) is not None:
                at_least(name, value, 1)

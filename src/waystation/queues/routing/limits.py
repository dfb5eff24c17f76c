"""How much of one type may run."""

import msgspec

from waystation.core.errors import InvalidOption


class Limit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How much of one type may run; what is left out is not limited."""

    max_concurrent: int | None = None
    """At once, over all workers."""
    max_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_concurrent", "max_per_minute"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidOption(f"{name} must be at least 1, got {value}")

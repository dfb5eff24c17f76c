"""What the settings of a Django site say about its queues. Internal."""

# Django has no types.
# pyright: basic

from django.conf import settings

from waystation.bullmq import PayloadOptions


def url() -> str | None:
    """Where the store is."""
    return getattr(settings, "WAYSTATION_URL", None)


def payloads() -> PayloadOptions | None:
    """What becomes of data and results before they are stored."""
    return getattr(settings, "WAYSTATION_PAYLOADS", None)

"""The places that the settings name."""

from waystation.bullmq.redis.prefixes import Prefixes
from waystation.console.names import Places
from waystation.console.settings import prefixes_of
from waystation.core.settings.load import Settings
from waystation.files.settings import FilesSettings, layout
from waystation.routing.settings import RoutingSettings


def places_of(settings: Settings) -> Places:
    """Where the settings say that the products keep their queues."""
    return Places(
        bullmq=Prefixes(prefixes_of(settings)),
        routing=settings[RoutingSettings].namespace,
        files=layout(settings[FilesSettings]),
    )

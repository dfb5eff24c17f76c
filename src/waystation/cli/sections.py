"""Every section of the settings: the core's and each product's."""

from waystation.bullmq.settings import BullmqSettings
from waystation.console.settings import ConsoleSettings
from waystation.core.app.settings import CORE
from waystation.core.settings.section import Section
from waystation.files.settings import FilesSettings
from waystation.pipeline.settings import PipelineSettings
from waystation.routing.settings import RoutingSettings
from waystation.waitingroom.settings import RoomSettings

SECTIONS: dict[str, type[Section]] = {
    **CORE,
    "bullmq": BullmqSettings,
    "routing": RoutingSettings,
    "files": FilesSettings,
    "room": RoomSettings,
    "pipeline": PipelineSettings,
    "console": ConsoleSettings,
}

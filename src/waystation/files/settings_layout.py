"""The names of the keys, as the settings say."""

from waystation.files.options import Layout
from waystation.files.settings import FilesSettings


def layout(settings: FilesSettings) -> Layout:
    """The names of the keys."""
    worker = settings.worker
    return Layout(
        prefix=settings.namespace,
        priorities=worker.priorities,
        queues={name: worker.queues[name] for name in worker.priorities},
        processing_list_pattern=worker.processing_list_pattern,
        heartbeat_key_pattern=worker.heartbeat_key_pattern,
        completed_list=worker.completed_list,
        dead_letter_list=worker.dead_letter_list,
        rate_limit_key=settings.producer.rate_limit_key,
    )

"""The store of a command, and the key prefixes of the products in it."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import typer

from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.redis.prefixes import Prefixes, check_several
from waystation.core.app import invocation
from waystation.core.app.invocation import loaded_only
from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.events import Product
from waystation.core.settings.load import is_set, load, text_of
from waystation.core.store import embedded
from waystation.core.store.settings import StoreSettings
from waystation.pipeline.commands.shared import pipeline_settings


@contextmanager
def store_url(context: typer.Context) -> Generator[str]:
    """The URL of the store: from the settings, or of the embedded server."""
    settings = loaded_only(context, {"store": StoreSettings})
    if (url := settings[StoreSettings].url) is not None:
        # Plain text: Spark and the options of data sources take no subclass of it.
        yield str(url)
        return
    with embedded.shared() as server:
        yield server.url


_BULLMQ = ("bullmq", "prefix")
_ROUTING = ("routing", "namespace")
_FILES = ("files", "namespace")


def prefixes(context: typer.Context) -> str:
    """The prefixes that the settings name, as the option `prefix` of `waystation.events`."""
    # Read without their sections, which import workers: that takes longer than many an answer.
    file = invocation.of(context).config
    named = [(Product.BULLMQ.value, each) for each in bullmq_prefixes(context).every]
    named += [(Product.ROUTING.value, text_of(_ROUTING, file) or "")]
    named += [(Product.FILES.value, text_of(_FILES, file) or _prefix_of_files(file))]
    return ",".join(f"{product}={prefix}" for product, prefix in named if prefix)


def _prefix_of_files(file: Path | None) -> str:
    if not is_set(("files", "worker", "queues"), file):
        return ""
    # Only with queues that have keys of their own are the sections needed.
    from waystation.files.settings import FilesSettings, layout

    return layout(load({"files": FilesSettings}, file, others=True)[FilesSettings]).prefix


def bullmq_prefixes(context: typer.Context) -> Prefixes:
    """The prefixes of BullMQ's keys: that of the workers, then the others that are followed."""
    first = text_of(_BULLMQ, invocation.of(context).config) or PREFIX
    every = (first, *pipeline_settings(context).prefixes)
    if len(every) > 1:
        try:
            check_several(every)
        except InvalidOption as error:
            raise InvalidSetting(f"pipeline.prefixes and bullmq.prefix: {error}") from None
    return Prefixes(every)

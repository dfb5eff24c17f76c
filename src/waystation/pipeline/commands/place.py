"""The settings and the place of a command's history."""

import typer

from waystation.core.app.loading import loaded_only
from waystation.pipeline.settings import PipelineSettings
from waystation.pipeline.storage.places import checked_root


def pipeline_settings(context: typer.Context) -> PipelineSettings:
    """The section `pipeline`."""
    return loaded_only(context, {"pipeline": PipelineSettings})[PipelineSettings]


def root_of(context: typer.Context, history: str | None) -> str:
    """The directory of a command's history."""
    return checked_root(history or str(pipeline_settings(context).history))

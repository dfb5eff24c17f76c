"""The settings of the pipeline."""

from pathlib import Path

from pydantic import Field

from waystation.core.settings.section import Section


class PipelineSettings(Section):
    """Where history is kept and who computes it."""

    history: Path = Path(".waystation/history")
    """Directory of the history tables, which every machine of a cluster must see."""
    master: str = "local[2]"
    """The Spark master to run on."""
    driver_memory: str = ""
    """Heap of Spark's driver, such as `4g`; else what `spark-defaults.conf` says, else `1g`."""
    spark: dict[str, str] = Field(default_factory=dict)
    """Any of Spark's own settings, such as `{spark.executor.memory: 4g}`."""

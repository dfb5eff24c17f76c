"""The settings of the pipeline."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from waystation.core.settings.section import Section
from waystation.pipeline.payloads.rules import PayloadSettings


class PipelineSettings(Section, frozen=True, kw_only=True):
    """Where history is kept and who computes it."""

    history: Path = Path(".waystation/history")
    """Directory or URL of the history tables, which every machine of a cluster must see."""
    master: str = "local[2]"
    """The Spark master to run on."""
    driver_memory: str = ""
    """Heap of Spark's driver, such as `4g`; else what `spark-defaults.conf` says, else `1g`."""
    prefixes: tuple[str, ...] = ()
    """Prefixes of BullMQ that are followed besides `bullmq.prefix`; queues are `PREFIX:NAME`."""
    payloads: PayloadSettings = PayloadSettings()
    spark: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Any of Spark's own settings, such as `{spark.executor.memory: 4g}`."""

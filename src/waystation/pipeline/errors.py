"""What can go wrong with Spark, and with the history that it keeps.

WaystationError
└─ HistoryError
   ├─ JavaMissing
   ├─ SparkNotStarted
   ├─ SparkFailed
   ├─ JavaDied
   ├─ HeapExhausted
   ├─ DiskFull
   ├─ CheckpointDamaged
   ├─ HistoryCut
   ├─ WrongSchema
   └─ TablesDisagree
"""

from waystation.core.errors import WaystationError


class HistoryError(WaystationError):
    """Something about the history, or about what keeps it."""

    code = "HISTORY_ERROR"


class JavaMissing(HistoryError):
    """There is no Java that Spark can run on."""

    code = "JAVA_MISSING"


class SparkNotStarted(HistoryError):
    """Spark could not be started; its own words say why."""

    code = "SPARK_NOT_STARTED"


class SparkFailed(HistoryError):
    """Spark could not finish what it was asked; its own words say why."""

    code = "SPARK_FAILED"


class JavaDied(HistoryError):
    """The Java process that Spark runs in has ended; what was kept is whole."""

    code = "JAVA_DIED"


class HeapExhausted(HistoryError):
    """Spark needs more memory than its Java may use; what was kept is whole."""

    code = "HEAP_EXHAUSTED"


class DiskFull(HistoryError):
    """There is no room for what was to be written; what was kept before is whole."""

    code = "DISK_FULL"


class CheckpointDamaged(HistoryError):
    """A checkpoint that cannot be gone on from without losing or repeating something."""

    code = "CHECKPOINT_DAMAGED"


class HistoryCut(HistoryError):
    """The log no longer says what a table has gained; the folds must be made anew."""

    code = "HISTORY_CUT"


class WrongSchema(HistoryError):
    """A table's columns are not those that this version writes; nothing was written."""

    code = "WRONG_SCHEMA"


class TablesDisagree(HistoryError):
    """A table does not have the rows that another one says it must have."""

    code = "TABLES_DISAGREE"

"""Errors: everything that waystation raises and a program may catch.

Catching a class catches everything below it in the tree: `StoreError` for the server and the
connection to it, `InvalidInput` for values that cannot be accepted, `WorkError` for one job,
`HistoryError` for Spark and the history, `WaystationError` for all of them.
"""

from waystation.core.lazy import names_of

__getattr__ = names_of(
    __name__,
    {
        "waystation.core.errors": (
            "BrokenModule Cancelled Overtaken CircuitOpen DiskFull Expired GroupFull HeapExhausted "
            "HistoryCut HistoryError InvalidInput InvalidOption InvalidResult InvalidSetting "
            "InvalidToken InvalidUrl JavaDied JavaMissing JobDelayed JobFailed JobRateLimited "
            "JobWaiting JobWaitingForChildren KeyMissing LeaseLost Malformed NoHandler NotAdded "
            "NotFound NotLeader NotReplicated PayloadTooLarge ProcessDied RateLimited "
            "ScriptFailed SparkFailed SparkNotStarted StoreBusy StoreError StoreUnreachable "
            "StoreUnsuitable TablesDisagree TimedOut UnreadableData Unrecoverable WaystationError "
            "WorkError WrongSchema WrongState WrongType"
        ),
    },
)

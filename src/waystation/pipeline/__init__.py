"""The history of all queues on Spark: read events, keep them as tables, ask about them.

    from waystation.pipeline import EventOptions, History, RunOptions, open_session, run

    with open_session() as spark:
        history = History(spark, "/data/history")
        run(history, RunOptions(events=EventOptions(url="redis://localhost")))
        history.create_views()
        spark.sql("select queue, count(*) from items group by 1").show()

The declarations of all tables are in `waystation.pipeline.tables`. Names are imported when first
used, so that a program without Spark can still use `waystation.pipeline.spark.java`.
"""

from typing import Any

from waystation.core.lazy import names_of

_find = names_of(
    __name__,
    {
        # Running it
        "runner": "run follow RunOptions RunResult",
        "spark.session": "open_session SessionOptions register",
        "sources.streams": "EventOptions",
        "payloads.rules": "PayloadSettings Rule Action",
        "products.files": "FilesSetup",
        "waystation.core.settings.section": "Secret",
        "progress": "Progress",
        "health": "status Status StreamLag",
        # The history
        "history": "History",
        "tables": "Table Column Layer Layout",
        "deploys": "Deploy",
        "refresh.quality": "Check",
        "refresh.snapshot": "current_jobs",
        "gold.forecast": "Forecast Band",
        # Reports
        "reports.facts": "report Report QueueReport",
        "reports.receipt": "TenantsReport TenantReport",
        "reports.console": "console_report",
        "reports.page": "html_report",
        # Looking after it
        "maintenance.compaction": "compact Compacted",
        "maintenance.erasure": "forget retain",
        "maintenance.rebuild": "backfill rebuild",
        # Jobs and files as data sources
        "sources.jobs": "receipt",
        "sources.batch_writer": "Receipt",
        "file_scan": "ScanRules scan_listing scan_tree ScanResult",
        # Errors
        "waystation.core.errors": (
            "HistoryError HistoryCut Overtaken TablesDisagree WrongSchema DiskFull "
            "SparkFailed SparkNotStarted HeapExhausted JavaMissing JavaDied"
        ),
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _find(name)
    except ImportError:
        # A Spark that is too old lacks what our sources are made of.
        from waystation.pipeline.storage.spark_versions import require_installed

        require_installed()
        raise

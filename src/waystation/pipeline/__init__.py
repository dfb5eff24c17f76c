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

from typing import TYPE_CHECKING, Any

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.core.errors import (
        CheckpointDamaged,
        DiskFull,
        HeapExhausted,
        HistoryCut,
        HistoryError,
        JavaDied,
        JavaMissing,
        SparkFailed,
        SparkNotStarted,
        TablesDisagree,
        WrongSchema,
    )
    from waystation.core.settings.secrets import Secret
    from waystation.pipeline.deploys import Deploy
    from waystation.pipeline.file_scan.listing import ScanRules
    from waystation.pipeline.file_scan.scan import ScanResult, scan_listing, scan_tree
    from waystation.pipeline.gold.forecast import Band, Forecast
    from waystation.pipeline.health import Status, StreamLag, status
    from waystation.pipeline.history import History
    from waystation.pipeline.maintenance.compaction import Compacted, compact
    from waystation.pipeline.maintenance.erasure import forget, retain
    from waystation.pipeline.maintenance.rebuild import backfill, rebuild
    from waystation.pipeline.payloads.options import Action, PayloadSettings, Rule
    from waystation.pipeline.products.files import FilesSetup
    from waystation.pipeline.progress import Progress
    from waystation.pipeline.refresh.quality import Check
    from waystation.pipeline.refresh.snapshot import current_jobs
    from waystation.pipeline.reports.console import console_report
    from waystation.pipeline.reports.facts import QueueReport, Report, report
    from waystation.pipeline.reports.page import html_report
    from waystation.pipeline.runner import RunOptions, RunResult, follow, run
    from waystation.pipeline.sources.batch_writer import Receipt
    from waystation.pipeline.sources.jobs import receipt
    from waystation.pipeline.sources.streams import EventOptions
    from waystation.pipeline.spark.session import SessionOptions, open_session, register
    from waystation.pipeline.tables import Column, Layer, Layout, Table

__all__ = [
    "Action",
    "Band",
    "Check",
    "CheckpointDamaged",
    "Column",
    "Compacted",
    "Deploy",
    "DiskFull",
    "EventOptions",
    "FilesSetup",
    "Forecast",
    "HeapExhausted",
    "History",
    "HistoryCut",
    "HistoryError",
    "JavaDied",
    "JavaMissing",
    "Layer",
    "Layout",
    "PayloadSettings",
    "Progress",
    "QueueReport",
    "Receipt",
    "Report",
    "Rule",
    "RunOptions",
    "RunResult",
    "ScanResult",
    "ScanRules",
    "Secret",
    "SessionOptions",
    "SparkFailed",
    "SparkNotStarted",
    "Status",
    "StreamLag",
    "Table",
    "TablesDisagree",
    "WrongSchema",
    "backfill",
    "compact",
    "console_report",
    "current_jobs",
    "follow",
    "forget",
    "html_report",
    "open_session",
    "rebuild",
    "receipt",
    "register",
    "report",
    "retain",
    "run",
    "scan_listing",
    "scan_tree",
    "status",
]

_find = names_of(
    __name__,
    {
        "waystation.core.errors": (
            "CheckpointDamaged DiskFull HeapExhausted HistoryCut HistoryError JavaDied "
            "JavaMissing SparkFailed SparkNotStarted TablesDisagree WrongSchema"
        ),
        "waystation.core.settings.secrets": "Secret",
        "deploys": "Deploy",
        "file_scan.listing": "ScanRules",
        "file_scan.scan": "ScanResult scan_listing scan_tree",
        "gold.forecast": "Band Forecast",
        "health": "Status StreamLag status",
        "history": "History",
        "maintenance.compaction": "Compacted compact",
        "maintenance.erasure": "forget retain",
        "maintenance.rebuild": "backfill rebuild",
        "payloads.options": "Action PayloadSettings Rule",
        "products.files": "FilesSetup",
        "progress": "Progress",
        "refresh.quality": "Check",
        "refresh.snapshot": "current_jobs",
        "reports.console": "console_report",
        "reports.facts": "QueueReport Report report",
        "reports.page": "html_report",
        "runner": "RunOptions RunResult follow run",
        "sources.batch_writer": "Receipt",
        "sources.jobs": "receipt",
        "sources.streams": "EventOptions",
        "spark.session": "SessionOptions open_session register",
        "tables": "Column Layer Layout Table",
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

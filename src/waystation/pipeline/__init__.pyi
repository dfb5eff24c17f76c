"""What `waystation.pipeline` offers.

Written by `make docs` from the list next to it; do not edit.
"""

from waystation.core.errors import (
    DiskFull,
    HeapExhausted,
    HistoryCut,
    HistoryError,
    JavaDied,
    JavaMissing,
    Overtaken,
    SparkFailed,
    SparkNotStarted,
    TablesDisagree,
    WrongSchema,
)
from waystation.core.settings.section import Secret
from waystation.pipeline.deploys import Deploy
from waystation.pipeline.file_scan import ScanResult, ScanRules, scan_listing, scan_tree
from waystation.pipeline.gold.forecast import Band, Forecast
from waystation.pipeline.health import Status, StreamLag, status
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import Compacted, compact
from waystation.pipeline.maintenance.erasure import forget, retain
from waystation.pipeline.maintenance.rebuild import backfill, rebuild
from waystation.pipeline.payloads.rules import Action, PayloadSettings, Rule
from waystation.pipeline.products.files import FilesSetup
from waystation.pipeline.progress import Progress
from waystation.pipeline.refresh.quality import Check
from waystation.pipeline.refresh.snapshot import current_jobs
from waystation.pipeline.reports.console import console_report
from waystation.pipeline.reports.facts import QueueReport, Report, report
from waystation.pipeline.reports.page import html_report
from waystation.pipeline.reports.receipt import TenantReport, TenantsReport
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
    "Overtaken",
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
    "TenantReport",
    "TenantsReport",
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

"""The settings of the files line made into running things."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from urllib.parse import quote

from waystation.core.app import compose
from waystation.core.app.imports import import_module
from waystation.core.app.settings import LogLevel, StoreSettings, TelemetrySettings
from waystation.core.breaker import BreakerOptions
from waystation.core.errors import BrokenModule, InvalidSetting, StoreUnreachable
from waystation.core.settings.load import Settings
from waystation.core.store.connection import Store, StoreOptions, connect
from waystation.core.store.reconnect import Reconnect
from waystation.files.directory.scan import ScanOptions
from waystation.files.handlers import registered
from waystation.files.options import QueueOptions, ReaperOptions, WorkerOptions
from waystation.files.producer import ProducerOptions
from waystation.files.redis.keys import FileKeys
from waystation.files.settings import FilesFile, FilesSettings, RedisSettings
from waystation.files.settings import layout as layout


@asynccontextmanager
async def store(
    settings: FilesSettings, general: Settings, *, wait_s: float = 0.0
) -> AsyncGenerator[Store]:
    """Open the server that the settings name, or the store of the rest of waystation."""
    if not settings.redis.addr:
        async with compose.store(general[StoreSettings], wait_s=wait_s) as reached:
            yield reached
        return
    opened = compose.suitable(lambda: _reached(settings.redis), wait_s=wait_s)
    async with await opened as reached:
        yield reached


async def _reached(settings: RedisSettings) -> Store:
    patience = Reconnect()
    for tries_left in range(settings.max_retries, -1, -1):
        try:
            return await connect(url_of(settings), _store_options(settings))
        except StoreUnreachable:
            if not tries_left:
                raise
            await patience.pause()
    raise AssertionError("the last try returns or raises")


def url_of(settings: RedisSettings) -> str:
    """The address of the line's own server."""
    password = settings.password or ""
    who = f"{quote(settings.username, safe='')}:{quote(password, safe='')}@"
    return f"redis://{who if settings.username or password else ''}{settings.addr}/{settings.db}"


def _store_options(settings: RedisSettings) -> StoreOptions:
    return StoreOptions(
        connect_timeout=settings.dial_timeout,
        call_timeout=max(settings.read_timeout, settings.write_timeout),
        max_connections=max(settings.pool_size_multiplier * (os.cpu_count() or 1), 4),
    )


def queue_options(settings: FilesSettings) -> QueueOptions:
    """What is remembered of files that were added."""
    return QueueOptions(remember=settings.producer.remember, events_max_len=settings.events_max_len)


def producer_options(settings: FilesSettings) -> ProducerOptions:
    """Which files are added, and how fast."""
    producer = settings.producer
    return ProducerOptions(
        scan=ScanOptions(
            scan_dir=producer.scan_dir,
            include_globs=producer.include_globs,
            exclude_globs=producer.exclude_globs,
            settle=producer.settle,
        ),
        default_priority=producer.default_priority,
        high_priority_exts=producer.high_priority_exts,
        rate_limit_per_sec=producer.rate_limit_per_sec,
        rescan=producer.rescan,
    )


def require_scan_dir(loaded: FilesFile) -> None:
    """Refuse a directory that cannot be walked, before anything is touched."""
    directory = loaded.settings.producer.scan_dir
    if not Path(directory).is_dir():
        setting = loaded.named("producer", "scan_dir")
        raise InvalidSetting(f"{setting} wants a directory, got {directory!r}")


def worker_options(settings: FilesSettings) -> WorkerOptions:
    """How files are worked on."""
    worker, reaper, breaker = settings.worker, settings.reaper, settings.circuit_breaker
    return WorkerOptions(
        concurrency=worker.count,
        lease=worker.heartbeat_ttl,
        max_retries=worker.max_retries,
        backoff=worker.backoff.base,
        backoff_max=worker.backoff.max,
        weights=worker.weights,
        completed_max_len=worker.completed_max_len,
        events_max_len=settings.events_max_len,
        poll=worker.brpoplpush_timeout,
        no_handler_after=worker.no_handler_after,
        reaper=ReaperOptions(
            interval=reaper.interval,
            count=reaper.scan_count,
            budget=reaper.budget,
            page_delay=reaper.base_delay,
        ),
        breaker=BreakerOptions(
            failure_threshold=breaker.failure_threshold,
            window_s=breaker.window,
            cooldown_s=breaker.cooldown_period,
            min_samples=breaker.min_samples,
        ),
        timeout=worker.timeout,
        grace=worker.grace,
        sample=settings.observability.queue_sample_interval,
    )


def telemetry_settings(settings: FilesSettings, general: TelemetrySettings) -> TelemetrySettings:
    """What can be seen from outside, in the words of the rest of waystation."""
    seen = settings.observability
    return TelemetrySettings(
        log_level=cast(LogLevel, seen.log_level),
        log_format=general.log_format,
        redact=general.redact,
        metrics_host=settings.metrics.host,
        metrics_port=seen.metrics_port,
        tracing=seen.tracing,
    )


def telemetry_names(loaded: FilesFile) -> compose.TelemetryNames:
    """What these settings are called in the line's own file."""
    port = ("observability", "metrics_port")
    return compose.TelemetryNames(
        section="observability",
        port=loaded.named(*port),
        port_is_default=port not in loaded.origins,
    )


def named_queues(settings: FilesSettings) -> Sequence[str]:
    """The queues that the numbers may name."""
    worker = settings.worker
    own = [worker.queues[name] for name in worker.priorities]
    own += [worker.completed_list, worker.dead_letter_list, FileKeys(layout(settings)).unmatched]
    return settings.metrics.allowed_queues or own


def import_handlers(loaded: FilesFile) -> None:
    """Import the module whose functions run for the files, also from the working directory."""
    module = loaded.settings.worker.handlers
    setting = loaded.named("worker", "handlers")
    if not module or module.startswith("."):
        raise InvalidSetting(
            f"{setting} wants the module with your @files.handler functions, such as shop.inbox, "
            f"got {repr(module) if module else 'nothing'}"
        )
    try:
        import_module(module)
    except BrokenModule as error:
        why = str(error).partition(": ")[2]
        raise InvalidSetting(
            f"{setting} wants a module that can be imported, got {module!r}: {why}"
        ) from error
    if not registered.rules:
        raise InvalidSetting(
            f"{setting} wants a module with functions under @files.handler, "
            f"got {module!r}, which registers none"
        )

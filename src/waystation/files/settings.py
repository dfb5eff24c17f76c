"""The settings of the files line, in the words of its own configuration file."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, get_args

import msgspec

from waystation.core.app.settings import LogLevel, Port, TracingSettings
from waystation.core.durations import Seconds, format_duration
from waystation.core.errors import InvalidOption
from waystation.core.settings.load import FILE, Settings, checked, file_of
from waystation.core.settings.section import Secret, Section, rows
from waystation.core.settings.sources import (
    Entry,
    read_environment,
    read_file,
    without_service_links,
)
from waystation.files.directory.globs import Globs
from waystation.files.options import PRIORITIES, Layout

Moment = Annotated[Seconds, msgspec.Meta(ge=0.001)]
Interval = Annotated[Seconds, msgspec.Meta(ge=0.01)]


class RedisSettings(Section, frozen=True, kw_only=True):
    """Where the queues are kept."""

    addr: str = ""
    """`host:port` of the server; without one, the store of the rest of waystation is used."""
    username: str = ""
    password: Secret | None = None
    db: Annotated[int, msgspec.Meta(ge=0)] = 0
    pool_size_multiplier: Annotated[int, msgspec.Meta(ge=1)] = 10
    """Connections for each processor that a process may open; callers beyond them wait."""
    min_idle_conns: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Accepted for files written for other workers; connections open when they are needed."""
    dial_timeout: Moment = 5.0
    read_timeout: Moment = 3.0
    write_timeout: Moment = 3.0
    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 3
    """Further tries to reach the server at the start; a call is never made twice on its own."""

    def __post_init__(self) -> None:
        host, _, port = self.addr.rpartition(":")
        is_place = host and "/" not in host and port.isdigit() and 0 < int(port) < 65_536
        if self.addr and not is_place:
            raise InvalidOption(
                f"addr must be host:port, such as localhost:6379, got {self.addr!r}"
            )


class BackoffSettings(Section, frozen=True, kw_only=True):
    """The pause after a failure: `min(base * 2^(n-1), max)`."""

    base: Seconds = 0.5
    max: Seconds = 10.0


class FileWorkerSettings(Section, frozen=True, kw_only=True):
    """How files are worked on."""

    count: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 16
    """Files that one process works on at a time."""
    heartbeat_ttl: Annotated[Seconds, msgspec.Meta(ge=5)] = 30.0
    """How long a worker that is not heard of keeps what it holds."""
    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 3
    """Tries after the first one."""
    backoff: BackoffSettings = BackoffSettings()
    priorities: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("high", "low")
    """The most urgent first."""
    queues: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The key of each priority's queue; `NAMESPACE:high_priority` and `NAMESPACE:low_priority`
    without."""
    weights: tuple[Annotated[int, msgspec.Meta(ge=1)], ...] = ()
    """The share of each priority while all have work, such as 8, 2; without, the first comes
    first."""
    processing_list_pattern: str = ""
    """What a worker holds; `%s` is its id. `NAMESPACE:worker:%s:processing` without."""
    heartbeat_key_pattern: str = ""
    """Where a worker shows that it is alive; `%s` is its id. `NAMESPACE:processing:worker:%s`
    without."""
    completed_list: str = ""
    """What is done; `NAMESPACE:completed` without."""
    completed_max_len: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """How many completed jobs are remembered."""
    dead_letter_list: str = ""
    """What failed for good; `NAMESPACE:dead_letter` without."""
    brpoplpush_timeout: Moment = 1.0
    """The longest wait before looking again; what other producers add is found after this long."""
    no_handler_after: Seconds = 60.0
    """How long a file that no live worker has a handler for is left to workers that may come."""
    timeout: Moment | None = None
    """How long one file may take."""
    grace: Seconds = 30.0
    """How long running work may go on after a stop was asked for."""
    handlers: str = ""
    """The module whose `@files.handler` functions run; a worker without one is refused."""

    def __post_init__(self) -> None:
        for priority in self.priorities:
            if not self.queues.get(priority) and (self.queues or priority not in PRIORITIES):
                raise InvalidOption(f"queues must have an entry for priority {priority!r}")
        if self.weights and len(self.weights) != len(self.priorities):
            raise InvalidOption(
                f"weights must have one for each of {', '.join(self.priorities)}, "
                f"got {list(self.weights)}"
            )
        for name in ("processing_list_pattern", "heartbeat_key_pattern"):
            if getattr(self, name) and getattr(self, name).count("%s") != 1:
                raise InvalidOption(
                    f"{name} must be a key with %s once, where the worker's id goes, "
                    f"got {getattr(self, name)!r}"
                )
        if self.brpoplpush_timeout > self.heartbeat_ttl / 2:
            raise InvalidOption(
                "brpoplpush_timeout must be at most half of worker.heartbeat_ttl, "
                f"got {format_duration(self.brpoplpush_timeout)}"
            )


class ProducerSettings(Section, frozen=True, kw_only=True):
    """Which files are added, and how fast."""

    scan_dir: str = "./data"
    include_globs: tuple[str, ...] = ("**/*",)
    exclude_globs: tuple[str, ...] = ("**/*.tmp", "**/.DS_Store")
    default_priority: str = "low"
    high_priority_exts: tuple[str, ...] = (".pdf", ".docx", ".xlsx", ".zip")
    """Files with these endings get the first priority."""
    rate_limit_per_sec: Annotated[int, msgspec.Meta(ge=0)] = 100
    """For all producers together; 0 means as fast as it goes."""
    rate_limit_key: str = ""
    """The limit that all producers share; `NAMESPACE:rate_limit:producer` without."""
    settle: Seconds = 2.0
    """A file that changed less than this long ago may still be being written."""
    remember: Annotated[Seconds, msgspec.Meta(ge=1)] = 30 * 86_400.0
    """How long, at least, an unchanged file is not added again."""
    rescan: Interval = 30.0
    """How often a watched directory is walked as a whole."""

    def __post_init__(self) -> None:
        for name in ("include_globs", "exclude_globs"):
            try:
                Globs(getattr(self, name))
            except InvalidOption as error:
                raise InvalidOption(f"{name} must be patterns such as **/*.pdf ({error})") from None


class BreakerSettings(Section, frozen=True, kw_only=True):
    """When a queue is left alone because too much of its work fails."""

    failure_threshold: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    """The part of failures that opens the breaker."""
    window: Moment = 60.0
    cooldown_period: Moment = 30.0
    min_samples: Annotated[int, msgspec.Meta(ge=1)] = 20


class ReaperSettings(Section, frozen=True, kw_only=True):
    """How the work of silent workers is taken back."""

    interval: Interval = 5.0
    """Between two passes, give or take a quarter."""
    scan_count: Annotated[int, msgspec.Meta(ge=1)] = 100
    """Workers looked at, and jobs taken back, at a time."""
    budget: Moment = 0.2
    """A pass stops after this long and goes on from there the next time."""
    base_delay: Seconds = 0.01
    """Between two pages of a pass, give or take a half."""


class ObservabilitySettings(Section, frozen=True, kw_only=True):
    """What can be seen from outside."""

    metrics_port: Port | None = 9090
    """The port of /metrics, /healthz and /readyz; 0 takes a free one. A port that was set and is
    taken is refused; when only the default is taken, the process runs without these pages."""
    log_level: str = "info"
    """debug, info, warning, error or critical, in any case; `warn` is taken, too."""
    queue_sample_interval: Interval = 2.0
    tracing: TracingSettings = TracingSettings()

    def __post_init__(self) -> None:
        level = self.log_level.lower()
        level = "warning" if level == "warn" else level
        if level not in get_args(LogLevel):
            raise InvalidOption(
                f"log_level must be one of {', '.join(get_args(LogLevel))}, got {level!r}"
            )
        msgspec.structs.force_setattr(self, "log_level", level)


class MetricsSettings(Section, frozen=True, kw_only=True):
    """What the numbers may name."""

    host: str = "127.0.0.1"
    """The interface that they are served on."""
    allowed_queues: tuple[str, ...] = ()
    """Queues that are named; without any, those of the configuration. All others are `other`."""


class FilesSettings(Section, frozen=True, kw_only=True):
    """A directory turned into work."""

    namespace: str = ""
    """What all keys start with that have no setting of their own, or none that is set; braces
    make it a hash tag. Without one it is `jobqueue`, or made of the key of the first queue
    where `worker.queues` is set, so that two fleets with other queues share nothing."""
    events_max_len: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """About how many events are kept for those who follow them."""
    redis: RedisSettings = RedisSettings()
    worker: FileWorkerSettings = FileWorkerSettings()
    producer: ProducerSettings = ProducerSettings()
    circuit_breaker: BreakerSettings = BreakerSettings()
    reaper: ReaperSettings = ReaperSettings()
    observability: ObservabilitySettings = ObservabilitySettings()
    metrics: MetricsSettings = MetricsSettings()

    def __post_init__(self) -> None:
        try:
            found = layout(self)
        except InvalidOption as error:
            section = "producer" if str(error).startswith("rate_limit_key") else "worker"
            raise InvalidOption(f"{section}.{error}") from None
        priorities, given = self.worker.priorities, self.producer.default_priority
        if given not in priorities:
            raise InvalidOption(
                f"producer.default_priority must be one of {', '.join(priorities)}, "
                f"as worker.priorities has them, got {given!r}"
            )
        replace, names = msgspec.structs.replace, ("processing_list_pattern",)
        names += ("heartbeat_key_pattern", "completed_list", "dead_letter_list")
        keys = {name: getattr(found, name) for name in names}
        worker = replace(self.worker, queues={**self.worker.queues, **found.queues}, **keys)
        producer = replace(self.producer, rate_limit_key=found.rate_limit_key)
        msgspec.structs.force_setattr(self, "worker", worker)
        msgspec.structs.force_setattr(self, "producer", producer)


def layout(settings: FilesSettings) -> Layout:
    """The names of the keys."""
    worker = settings.worker
    return Layout(
        prefix=settings.namespace,
        priorities=worker.priorities,
        queues={name: worker.queues[name] for name in worker.priorities if worker.queues},
        processing_list_pattern=worker.processing_list_pattern,
        heartbeat_key_pattern=worker.heartbeat_key_pattern,
        completed_list=worker.completed_list,
        dead_letter_list=worker.dead_letter_list,
        rate_limit_key=settings.producer.rate_limit_key,
    )


SECTION = "files"


class FilesFile(Settings, frozen=True):
    """The settings of the files product in force, and where each was written."""

    @property
    def settings(self) -> FilesSettings:
        """The sections."""
        assert isinstance(self.top, FilesSettings)  # noqa: S101
        return self.top


def load_files(file: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> FilesFile:
    """Read the file, or else the section `files` of waystation's own; the environment wins."""
    environ = without_service_links(environ)
    written = read_file(file) if file else _section(environ)
    found = checked(FilesSettings, [*(written or []), *_plain_variables(environ)])
    return FilesFile(found.top, found.entries, missing=file if written is None else None)


def _section(environ: Mapping[str, str]) -> list[Entry]:
    general = read_file(file_of(environ) or Path(FILE)) or []
    return [
        Entry(entry.key[1:], entry.value, entry.origin)
        for entry in [*general, *read_environment(environ)]
        if entry.key[0] == SECTION and len(entry.key) > 1
    ]


def _plain_variables(environ: Mapping[str, str]) -> Iterator[Entry]:
    """`WORKER_COUNT` sets `worker.count`; what has no section keeps its longer name only."""
    for row in rows(FilesSettings):
        if len(row.key) < 2:
            continue
        for between in ("_", "__"):
            name = between.join(row.key).upper()
            if text := environ.get(name):
                yield Entry(row.key, text, name)

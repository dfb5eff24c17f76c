"""The settings of the files line, in the words of its own configuration file."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from waystation.core.app.tracing_settings import TracingSettings
from waystation.core.errors import InvalidOption
from waystation.core.settings.section import Duration, Section, wanted
from waystation.files.directory.globs import Globs


class RedisSettings(Section):
    """Where the queues are kept."""

    addr: str = ""
    """`host:port` of the server; without one, the store of the rest of waystation is used."""
    username: str = ""
    password: SecretStr | None = None
    db: Annotated[int, Field(ge=0)] = 0
    pool_size_multiplier: Annotated[int, Field(ge=1)] = 10
    """Connections for each processor that a process may open; callers beyond them wait."""
    min_idle_conns: Annotated[int, Field(ge=0)] = 0
    """Accepted for files written for other workers; connections open when they are needed."""
    dial_timeout: Annotated[float, Duration(at_least="1ms")] = 5.0
    read_timeout: Annotated[float, Duration(at_least="1ms")] = 3.0
    write_timeout: Annotated[float, Duration(at_least="1ms")] = 3.0
    max_retries: Annotated[int, Field(ge=0)] = 3
    """Further tries to reach the server at the start; a call is never made twice on its own."""

    @field_validator("addr")
    @classmethod
    def _is_a_place(cls, addr: str) -> str:
        host, _, port = addr.rpartition(":")
        is_place = host and "/" not in host and port.isdigit() and 0 < int(port) < 65_536
        if addr and not is_place:
            raise wanted("host:port, such as localhost:6379")
        return addr


class BackoffSettings(Section):
    """The pause after a failure: `min(base * 2^(n-1), max)`."""

    base: Annotated[float, Duration()] = 0.5
    max: Annotated[float, Duration()] = 10.0


class FileWorkerSettings(Section):
    """How files are worked on."""

    count: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Files that one process works on at a time."""
    heartbeat_ttl: Annotated[float, Duration(at_least="5s")] = 30.0
    """How long a worker that is not heard of keeps what it holds."""
    max_retries: Annotated[int, Field(ge=0)] = 3
    """Tries after the first one."""
    backoff: BackoffSettings = BackoffSettings()
    priorities: Annotated[tuple[str, ...], Field(min_length=1)] = ("high", "low")
    """The most urgent first."""
    queues: dict[str, str] = Field(
        default_factory=lambda: {name: f"jobqueue:{name}_priority" for name in ("high", "low")},
        validate_default=True,
    )
    """The key of each priority's queue."""
    weights: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """The share of each priority while all have work, such as 8, 2; without, the first comes
    first."""
    processing_list_pattern: str = "jobqueue:worker:%s:processing"
    """What a worker holds; `%s` is its id."""
    heartbeat_key_pattern: str = "jobqueue:processing:worker:%s"
    """Where a worker shows that it is alive; `%s` is its id."""
    completed_list: str = "jobqueue:completed"
    completed_max_len: Annotated[int, Field(ge=0)] = 10_000
    """How many completed jobs are remembered."""
    dead_letter_list: str = "jobqueue:dead_letter"
    brpoplpush_timeout: Annotated[float, Duration(at_least="1ms")] = 1.0
    """The longest wait before looking again; what other producers add is found after this long."""
    no_handler_after: Annotated[float, Duration()] = 60.0
    """How long a file that no live worker has a handler for is left to workers that may come."""
    timeout: Annotated[float, Duration(at_least="1ms")] | None = None
    """How long one file may take."""
    grace: Annotated[float, Duration()] = 30.0
    """How long running work may go on after a stop was asked for."""
    handlers: str = ""
    """The module whose `@files.handler` functions run; a worker without one is refused."""

    @field_validator("queues")
    @classmethod
    def _one_for_each_priority(cls, queues: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for priority in info.data.get("priorities", ()):
            if not queues.get(priority):
                raise ValueError(f"missing entry for priority {priority!r}")
        return queues

    @field_validator("weights")
    @classmethod
    def _one_weight_for_each(
        cls, weights: tuple[int, ...], info: ValidationInfo
    ) -> tuple[int, ...]:
        priorities = info.data.get("priorities", ())
        if weights and len(weights) != len(priorities):
            raise wanted(f"a weight for each of {', '.join(priorities)}")
        return weights

    @field_validator("processing_list_pattern", "heartbeat_key_pattern")
    @classmethod
    def _has_a_place_for_the_id(cls, pattern: str) -> str:
        if pattern.count("%s") != 1:
            raise wanted("a key with %s once, where the worker's id goes")
        return pattern

    @field_validator("brpoplpush_timeout")
    @classmethod
    def _at_most_half_the_heartbeat(cls, seconds: float, info: ValidationInfo) -> float:
        if seconds > info.data.get("heartbeat_ttl", float("inf")) / 2:
            raise wanted("at most half of worker.heartbeat_ttl")
        return seconds


class ProducerSettings(Section):
    """Which files are put in line, and how fast."""

    scan_dir: str = "./data"
    include_globs: tuple[str, ...] = ("**/*",)
    exclude_globs: tuple[str, ...] = ("**/*.tmp", "**/.DS_Store")
    default_priority: str = "low"
    high_priority_exts: tuple[str, ...] = (".pdf", ".docx", ".xlsx", ".zip")
    """Files with these endings get the first priority."""
    rate_limit_per_sec: Annotated[int, Field(ge=0)] = 100
    """For all producers together; 0 means as fast as it goes."""
    rate_limit_key: str = "jobqueue:rate_limit:producer"
    settle: Annotated[float, Duration()] = 2.0
    """A file that changed less than this long ago may still be being written."""
    remember: Annotated[float, Duration(at_least="1s")] = 30 * 86_400.0
    """How long, at least, an unchanged file is not put in line again."""
    rescan: Annotated[float, Duration(at_least="10ms")] = 30.0
    """How often a watched directory is walked as a whole."""

    @field_validator("include_globs", "exclude_globs")
    @classmethod
    def _are_patterns(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        try:
            Globs(globs)
        except InvalidOption as error:
            raise wanted(f"patterns such as **/*.pdf ({error})") from None
        return globs


class BreakerSettings(Section):
    """When a queue is left alone because too much of its work fails."""

    failure_threshold: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The part of failures that opens the breaker."""
    window: Annotated[float, Duration(at_least="1ms")] = 60.0
    cooldown_period: Annotated[float, Duration(at_least="1ms")] = 30.0
    min_samples: Annotated[int, Field(ge=1)] = 20


class ReaperSettings(Section):
    """How the work of silent workers is taken back."""

    interval: Annotated[float, Duration(at_least="10ms")] = 5.0
    """Between two passes, give or take a quarter."""
    scan_count: Annotated[int, Field(ge=1)] = 100
    """Workers looked at, and jobs taken back, at a time."""
    budget: Annotated[float, Duration(at_least="1ms")] = 0.2
    """A pass stops after this long and goes on from there the next time."""
    base_delay: Annotated[float, Duration()] = 0.01
    """Between two pages of a pass, give or take a half."""


class ObservabilitySettings(Section):
    """What can be seen from outside."""

    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = 9090
    """The port of /metrics, /healthz and /readyz; 0 takes a free one. A port that was set and is
    taken is refused; when only the default is taken, the process runs without these pages."""
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    queue_sample_interval: Annotated[float, Duration(at_least="10ms")] = 2.0
    tracing: TracingSettings = TracingSettings()

    @field_validator("log_level", mode="before")
    @classmethod
    def _as_others_write_it(cls, level: object) -> object:
        if not isinstance(level, str):
            return level
        return "warning" if level.lower() == "warn" else level.lower()


class MetricsSettings(Section):
    """What the numbers may name."""

    host: str = "127.0.0.1"
    """The interface that they are served on."""
    allowed_queues: tuple[str, ...] = ()
    """Queues that are named; without any, those of the configuration. All others are `other`."""


class FilesSettings(Section):
    """A directory turned into work."""

    namespace: str = "jobqueue"
    """What the keys that cannot be named above start with; braces make it a hash tag."""
    events_max_len: Annotated[int, Field(ge=1)] = 10_000
    """About how many events are kept for those who follow them."""
    redis: RedisSettings = RedisSettings()
    worker: FileWorkerSettings = FileWorkerSettings()
    producer: ProducerSettings = ProducerSettings()
    circuit_breaker: BreakerSettings = BreakerSettings()
    reaper: ReaperSettings = ReaperSettings()
    observability: ObservabilitySettings = ObservabilitySettings()
    metrics: MetricsSettings = MetricsSettings()

    @field_validator("producer")
    @classmethod
    def _puts_files_into_a_queue(
        cls, producer: ProducerSettings, info: ValidationInfo
    ) -> ProducerSettings:
        worker = info.data.get("worker")
        if worker and producer.default_priority not in worker.priorities:
            raise ValueError(
                f"default_priority wants one of {', '.join(worker.priorities)}, "
                f"got {producer.default_priority!r}"
            )
        return producer

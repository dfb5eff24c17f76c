"""The line's own configuration file."""

import re
import socket
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.app import compose
from waystation.core.app.settings import TelemetrySettings
from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.settings.section import rows
from waystation.files.commands import wiring as composed
from waystation.files.handlers import Handlers
from waystation.files.options import Layout
from waystation.files.settings import FilesSettings, load_files

WHOLE = """
redis:
  addr: db:6380
  username: clerk
  password: hunter2
  db: 2
  pool_size_multiplier: 4
  min_idle_conns: 1
  dial_timeout: 1s
  read_timeout: 500ms
  write_timeout: 700ms
  max_retries: 2
worker:
  count: 4
  heartbeat_ttl: 1m
  max_retries: 5
  backoff: { base: 250ms, max: 1m }
  priorities: [now, later]
  queues: { now: q:now, later: q:later }
  processing_list_pattern: q:%s:held
  heartbeat_key_pattern: q:%s:beat
  completed_list: q:done
  dead_letter_list: q:dead
  brpoplpush_timeout: 2s
producer:
  scan_dir: /inbox
  include_globs: ["**/*.pdf"]
  exclude_globs: []
  default_priority: later
  high_priority_exts: [.pdf]
  rate_limit_per_sec: 50
  rate_limit_key: q:rate
circuit_breaker:
  failure_threshold: 0.25
  window: 2m
  cooldown_period: 10s
  min_samples: 5
observability:
  metrics_port: 9999
  log_level: debug
  queue_sample_interval: 5s
  tracing: { enabled: true, endpoint: "http://collector:4318" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "files.yaml"


def loaded(file: Path, text: str, **environ: str) -> FilesSettings:
    file.write_text(text)
    return load_files(file, environ=environ).settings


def test_every_key_of_the_schema_is_read(file: Path) -> None:
    """T-1, T-2, T-3, T-4, T-5: nothing of the spec's file is ignored. T-6: Go durations."""
    found = loaded(file, WHOLE)
    written = yaml.safe_load(WHOLE)

    def leaves(tree: Any, above: tuple[str, ...] = ()) -> Any:
        for name, value in tree.items():
            if isinstance(value, dict) and name != "queues":
                yield from leaves(value, (*above, name))
            else:
                yield (*above, name)

    declared = {setting.key for setting in rows(FilesSettings)}
    assert [key for key in leaves(written) if key not in declared] == []
    assert (found.redis.read_timeout, found.worker.heartbeat_ttl) == (0.5, 60)
    assert found.worker.backoff.base == 0.25
    assert found.circuit_breaker.window == 120

    layout, options = composed.layout(found), composed.worker_options(found)
    assert dict(layout.queues) == {"now": "q:now", "later": "q:later"}
    assert layout.processing_list_pattern == "q:%s:held"
    assert (options.max_retries, options.delay_ms(2)) == (5, 500)
    assert options.breaker
    assert (options.breaker.failure_threshold, options.breaker.cooldown_s) == (0.25, 10)
    assert composed.producer_options(found).scan.scan_dir == "/inbox"
    own = ["q:now", "q:later", "q:done", "q:dead", "q:now:by-queues:unmatched"]
    assert composed.named_queues(found) == own


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("WORKER_COUNT", "7", "worker.count", 7),
        ("WORKER__COUNT", "7", "worker.count", 7),
        ("REDIS_ADDR", "db:1", "redis.addr", "db:1"),
        ("REDIS_PASSWORD", "x", "redis.password", "x"),
        ("WORKER_BACKOFF_BASE", "2s", "worker.backoff.base", 2),
        ("CIRCUIT_BREAKER_FAILURE_THRESHOLD", "0.9", "circuit_breaker.failure_threshold", 0.9),
        ("PRODUCER_INCLUDE_GLOBS", "**/*.pdf, a/*", "producer.include_globs", ("**/*.pdf", "a/*")),
        ("OBSERVABILITY_TRACING_ENABLED", "true", "observability.tracing.enabled", True),
        ("OBSERVABILITY_LOG_LEVEL", "WARN", "observability.log_level", "warning"),
        ("WORKER_QUEUES", "{high: a, low: b}", "worker.queues", {"high": "a", "low": "b"}),
    ],
)
def test_the_environment_wins(file: Path, name: str, text: str, key: str, value: object) -> None:
    """T-7: each key in upper snake case. F-T17: one underscore or two."""
    assert attrgetter(key)(loaded(file, "worker: {count: 3}", **{name: text})) == value


def test_a_missing_file_means_the_defaults(file: Path) -> None:
    """T-16: and the defaults are those of the origin."""
    found = load_files(file, environ={})
    assert found.missing == file
    worker = found.settings.worker
    assert (worker.count, worker.heartbeat_ttl, worker.max_retries) == (16, 30, 3)
    assert worker.queues == {"high": "jobqueue:high_priority", "low": "jobqueue:low_priority"}
    assert found.settings.circuit_breaker.min_samples == 20


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("worker: {count: 0}", "worker.count (FILE:1) wants at least 1, got '0'"),
        ("worker: {priorities: []}", "worker.priorities (FILE:1) wants at least 1 of them"),
        ("worker: {priorities: [high, high]}", "worker.priorities (FILE:1) must differ, got high"),
        ("worker: {priorities: [high]}",
         "must be one of high, as worker.priorities has them, got 'low'"),
        ("worker: {priorities: [x]}", "must have an entry for priority 'x'"),
        ("worker:\n  heartbeat_ttl: 4s",
         "worker.heartbeat_ttl (FILE:2) wants a duration of at least 5s, got '4s'"),
        ("worker: {heartbeat_ttl: 10s, brpoplpush_timeout: 6s}",
         "worker.brpoplpush_timeout (FILE:1) must be at most half of worker.heartbeat_ttl"),
        ("producer: {rate_limit_per_sec: -1}",
         "producer.rate_limit_per_sec (FILE:1) wants at least 0, got '-1'"),
        ("producer: {default_priority: urgent}",
         "producer.default_priority (FILE:1) must be one of high, low"),
        ("producer: {include_globs: ['']}", "producer.include_globs (FILE:1) must be patterns"),
        ("worker: {heartbeat_key_pattern: fixed}", "must be a key with %s once"),
        ("worker: {weights: [8]}", "worker.weights (FILE:1) must have one for each of high, low"),
        ("redis: {addr: nowhere}", "redis.addr (FILE:1) must be host:port"),
        ("redis: {addr: 'redis://db:6379'}", "redis.addr (FILE:1) must be host:port"),
        ("observability: {log_level: loud}",
         "observability.log_level (FILE:1) must be one of debug"),
        ("observability: {tracing: {endpoint: 'collector:4317'}}",
         "observability.tracing.endpoint (FILE:1) must be an address such as http://"),
        ("circuit_breaker: {failure_threshold: 0}", "wants more than 0"),
        ("worker: {cuont: 1}",
         "worker.cuont (FILE:1) is not a setting; did you mean worker.count?"),
        ("worker: {backoff: {base: soon}}", "worker.backoff.base (FILE:1) wants a duration"),
        ("worker:\n  completed_list: jobqueue:seen",
         "worker.completed_list (FILE:2) must have a key of its own, not that of the queue's seen"),
        ("worker:\n  queues:\n    high: a\n    low: a",
         "worker.queues.low (FILE:4) must have a key of its own, not that of queues.high"),
        ("producer:\n  rate_limit_key: jobqueue:dead_letter",
         "producer.rate_limit_key (FILE:2) must have a key of its own"),
        ("worker:\n  completed_list: x\n  dead_letter_list: x",
         "worker.dead_letter_list (FILE:3) must have a key of its own"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_what_was_wanted(file: Path, text: str, sentence: str) -> None:
    """T-8 count, T-9 priorities, T-10 a queue for each, T-11 heartbeat_ttl, T-12
    brpoplpush_timeout, T-13 rate limit; T-17: an invalid value is an error, in one line.
    """
    with pytest.raises(InvalidSetting) as caught:
        loaded(file, text)
    assert sentence in str(caught.value).replace(str(file), "FILE")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"completed_list": "jobqueue:high_priority"}, "completed_list must have a key of its own"),
        ({"dead_letter_list": "jobqueue:seen"}, "dead_letter_list must have a key of its own"),
        ({"queues": {"high": "a", "low": "a"}}, "queues.low must have a key of its own"),
        ({"rate_limit_key": "jobqueue:dead_letter:meta"}, "got 'jobqueue:dead_letter:meta'"),
        ({"priorities": ("high", "high")}, "priorities must differ, got high, high"),
        ({"priorities": ()}, "priorities must not be empty"),
    ],
)
def test_two_things_under_one_key_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(sentence)):
        Layout(**options)


def test_secrets_are_never_shown(file: Path) -> None:
    file.write_text(WHOLE)
    shown = {row.name: row for row in load_files(file, environ={}).shown()}
    assert shown["redis.password"].value == "***"
    assert "hunter2" not in "".join(f"{row}" for row in shown.values())
    assert shown["worker.count"].origin == f"{file}:14"


def test_without_a_file_the_section_of_the_general_settings_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("waystation.yaml").write_text("files: {worker: {count: 5}}")
    assert load_files(environ={}).settings.worker.count == 5
    environ = {"WAYSTATION_FILES__WORKER__COUNT": "6"}
    assert load_files(environ=environ).settings.worker.count == 6
    assert load_files(environ={**environ, "WORKER_COUNT": "7"}).settings.worker.count == 7


def test_the_sections_of_our_own_have_defaults() -> None:
    """F-T17: `reaper:` and `metrics:` exist, with the numbers of the spec."""
    found = FilesSettings()
    assert (found.reaper.interval, found.reaper.scan_count, found.reaper.budget) == (5, 100, 0.2)
    assert found.metrics.allowed_queues == ()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
names = sorted({part for setting in rows(FilesSettings) for part in setting.key})


@given(st.dictionaries(st.sampled_from(names), st.dictionaries(st.sampled_from(names), values)))
def test_any_file_loads_or_says_in_one_line_why_not(
    tmp_path_factory: pytest.TempPathFactory, tree: Any
) -> None:
    file = tmp_path_factory.mktemp("any") / "files.yaml"
    file.write_text(yaml.safe_dump(tree))
    try:
        load_files(file, environ={})
    except InvalidSetting as error:
        lines = str(error).splitlines()
    else:
        lines = ["all is well"]
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("", "worker.handlers wants the module with your @files.handler functions, such as"),
        (".work", "worker.handlers (WORKER_HANDLERS) wants the module with your @files.handler"),
        ("no.such", "worker.handlers (WORKER_HANDLERS) wants a module that can be imported, got"),
        ("json", "worker.handlers (WORKER_HANDLERS) wants a module with functions under @files"),
    ],
)
def test_a_worker_without_functions_is_refused_with_what_to_set(
    module: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composed, "registered", Handlers())
    loaded = load_files(environ={"WORKER_HANDLERS": module})
    with pytest.raises(InvalidSetting, match=f"^{re.escape(complaint)}"):
        composed.import_handlers(loaded)


async def test_a_taken_port_is_refused_under_the_name_it_was_set_by() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        loaded = load_files(environ={"OBSERVABILITY_METRICS_PORT": str(port)})
        refused = re.escape(
            "observability.metrics_port (OBSERVABILITY_METRICS_PORT) wants a port that can be "
            f"listened on, got 127.0.0.1:{port} ("
        )
        with pytest.raises(InvalidSetting, match=f"^{refused}"):
            async with compose.telemetry(
                composed.telemetry_settings(loaded.settings, TelemetrySettings()),
                names=composed.telemetry_names(loaded),
            ):
                pass

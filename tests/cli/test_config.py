import json
from pathlib import Path

from tests.support.command import Command


def test_show_prints_each_setting_and_where_it_comes_from(
    waystation: Command, tmp_path: Path
) -> None:
    (tmp_path / "waystation.yaml").write_text("worker:\n  lease: 90s\n")
    result = waystation("config", "show", WAYSTATION_WORKER__GRACE="5s")
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["worker.lease"] == ["1m30s", "waystation.yaml:2"]
    assert rows["worker.grace"] == ["5s", "WAYSTATION_WORKER__GRACE"]
    assert rows["worker.watchdog"] == ["1m", "default"]


def test_show_masks_the_password(waystation: Command) -> None:
    url = "redis://me:hunter2@host:6379/0"
    for command in (("config", "show"), ("config", "show", "--json")):
        result = waystation(*command, WAYSTATION_STORE__URL=url)
        assert "redis://***@host:6379/0" in result.stdout
        assert "hunter2" not in result.stdout + result.stderr


def test_show_can_speak_json(waystation: Command) -> None:
    rows = json.loads(waystation("config", "show", "--json").stdout)
    assert {"name": "worker.lease", "value": "30s", "origin": "default"} in rows


def test_a_file_named_on_the_command_line_is_read(waystation: Command, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("worker: {lease: 90s}")
    assert "1m30s" in waystation("--config", "other.yaml", "config", "show").stdout


def test_a_file_that_was_named_has_to_be_there(waystation: Command) -> None:
    """Its defaults would be another store, on which everything looks well."""
    result = waystation("--config", "other.yaml", "config", "show")
    assert result.returncode == 2
    assert result.stderr == "waystation: there is no settings file other.yaml\n"


def test_an_unknown_setting_is_one_line_and_exit_code_2(
    waystation: Command, tmp_path: Path
) -> None:
    (tmp_path / "waystation.yaml").write_text("worker:\n  concurency: 3\n")
    result = waystation("config", "show")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        "waystation: worker.concurency (waystation.yaml:2) is not a setting; "
        "did you mean worker.concurrency?\n"
    )


def test_the_schema_describes_every_section(waystation: Command) -> None:
    schema = json.loads(waystation("config", "schema").stdout)
    assert set(schema["properties"]) >= {"store", "worker", "telemetry", "pipeline"}
    assert schema["properties"]["worker"]["properties"]["lease"]["default"] == "30s"

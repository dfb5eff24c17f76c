import subprocess
from pathlib import Path

import pytest

from tests.wire.conftest import LATEST, started
from tests.wire.install import NodeUnavailable, find_node, installed


def test_a_second_run_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = installed(LATEST)
    before = (first.stat().st_ino, (first / "node_modules").stat().st_mtime_ns)
    monkeypatch.setenv("PATH", "")

    again = installed(LATEST)

    assert (again.stat().st_ino, (again / "node_modules").stat().st_mtime_ns) == before


def test_node_comes_from_the_wheel_where_the_machine_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")

    found = find_node()

    for command in ((found.program,), found.npm):
        subprocess.run([*command, "--version"], check=True, capture_output=True)


def test_a_release_nobody_declared_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(NodeUnavailable, match=r"out of 5\.81\.5, 6\.7\.0, got 0\.0\.0"):
        installed("0.0.0", tmp_path)


async def test_without_node_the_cross_tests_are_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="wanted a BullMQ release"):
        await started("0.0.0")

    assert "no cross tests with Node BullMQ 0.0.0: wanted" in capsys.readouterr().out


async def test_without_node_the_cross_tests_fail_where_they_must_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="must run here: wanted a BullMQ release"):
        await started("0.0.0")

from pathlib import Path

import pytest

from tests.support.command import Command


@pytest.fixture
def waystation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


@pytest.fixture
def bullmq(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path, capsys, "bullmq", WAYSTATION_STORE__URL=redis_url)

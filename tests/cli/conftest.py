from pathlib import Path

import pytest

from tests.support.command import Command


@pytest.fixture
def waystation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)

"""What happens to a test whose program the machine lacks."""

from pathlib import Path

import pytest

from tests.support import programs
from tests.support.programs import require_program


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where fetched programs are put, on a machine that has none of its own."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(programs, "FETCHED", tmp_path)
    return tmp_path


def test_a_fetched_program_is_found(fetched: Path) -> None:
    (fetched / "promtool").touch(mode=0o755)
    assert require_program("promtool", package="prometheus") == str(fetched / "promtool")


@pytest.mark.usefixtures("fetched")
@pytest.mark.parametrize(
    ("ci", "ending"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_a_missing_program_skips_the_test_but_fails_a_build(
    ci: str, ending: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ending, match="promtool is not here; `apt install prometheus`"):
        require_program("promtool", package="prometheus")

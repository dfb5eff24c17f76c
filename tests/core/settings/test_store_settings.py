"""The store that a program's own code finds in the settings, and slips that would hide it."""

from pathlib import Path

import pytest

from waystation.core.errors import InvalidSetting
from waystation.core.store.settings import store_settings


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("store: {ulr: redis://host}", "store.ulr .* is not a setting; did you mean store.url?"),
        (
            "store: {nonsense: 1}",
            "store.nonsense .* is not a setting; store has .*url",
        ),
        ("stroe: {url: redis://host}", "stroe .* is not a setting; did you mean store?"),
    ],
)
def test_a_slip_in_the_file_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InvalidSetting, match=sentence):
        store_settings(environ={"WAYSTATION_CONFIG": str(file)})


def test_a_slip_in_the_environment_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="did you mean store"):
        store_settings(environ={"WAYSTATION_STORE__ULR": "redis://host"})


def test_a_file_that_is_named_has_to_be_there() -> None:
    with pytest.raises(InvalidSetting, match="which does not exist"):
        store_settings(environ={"WAYSTATION_CONFIG": "nowhere.yaml"})


def test_other_sections_are_left_to_the_commands(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("worker: {lease: 90s}\nstore: {url: 'redis://host'}")
    assert store_settings(environ={"WAYSTATION_CONFIG": str(file)}).url == "redis://host"

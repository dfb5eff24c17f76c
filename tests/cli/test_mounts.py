from pathlib import Path

import pytest

from waystation.cli.mounts import MOUNTS, Mount, load
from waystation.core.errors import InvalidInput


@pytest.mark.parametrize("mount", MOUNTS, ids=lambda mount: mount.name)
def test_every_command_in_the_table_can_be_loaded(mount: Mount) -> None:
    assert load(mount).name == mount.name


def test_a_missing_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "line_of_spark.py").write_text("import sparkles\n")
    monkeypatch.syspath_prepend(tmp_path)
    mount = Mount("pipeline", "line_of_spark", "Remember.", "History", extra="spark")
    with pytest.raises(InvalidInput) as refused:
        load(mount)
    assert str(refused.value) == (
        "waystation pipeline needs sparkles, which is not installed: "
        "run pip install 'waystation[spark]', or make test in a clone"
    )


def test_a_package_of_its_own_says_how_to_get_it() -> None:
    mount = Mount("ghost", "ghost_of_ours.commands", "Haunt.", "Setup", package="packages/ghost")
    with pytest.raises(InvalidInput) as refused:
        load(mount)
    assert str(refused.value) == (
        "waystation ghost is a package of its own, which is not installed: "
        "run pip install ./packages/ghost in a clone"
    )


def test_a_module_of_ours_that_is_missing_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError):
        load(Mount("ghost", "waystation.ghost", "Nothing.", "Nowhere", extra="spark"))

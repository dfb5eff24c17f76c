"""The parts of `make release`, without building anything."""

import sys
from pathlib import Path

import pytest

from tools import release
from tools.step import Unready

TAGGED = "## [Unreleased]\n\n## [1.2.3] - 2027-01-31\n\n### Added\n"


def test_every_extra_has_a_program_and_every_program_an_extra() -> None:
    assert {*release.programs()} == {*release.EXTRAS, *release.EXTRA_OF}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", release.programs())
def test_the_program_of_an_extra_runs(name: str, tmp_path: Path) -> None:
    release.play(Path(sys.executable), name, tmp_path)


@pytest.mark.parametrize(
    ("changelog", "tags", "wanted"),
    [
        (TAGGED, "v1.2.3", "tag v1.2.3"),
        (TAGGED, "", "no tag yet"),
        (TAGGED.replace("\n\n##", "\n\n- One more thing.\n\n##"), "", "no tag yet"),
        (TAGGED.replace("\n\n##", "\n\n- One more thing.\n\n##"), "v1.2.3", r"is newer than"),
        (TAGGED, "v1.2.4", "wanted the tag v1.2.3, got"),
        (TAGGED.replace("1.2.3", "1.2.2"), "", r"no section \[1.2.3\]"),
    ],
)
def test_tag_changelog_and_wheel_have_one_version(
    changelog: str, tags: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    monkeypatch.setattr(release, "SOURCE", tmp_path)
    monkeypatch.setattr(release, "tags", tags.split)
    wheel = tmp_path / "waystation-1.2.3-py3-none-any.whl"
    if wanted in ("tag v1.2.3", "no tag yet"):
        assert release.version(wheel) == wanted
    else:
        with pytest.raises(Unready, match=wanted):
            release.version(wheel)


def test_a_file_too_many_and_one_too_few_are_named() -> None:
    assert release.same_files({"a", "b"}, ["b", "a"]) == "2 files"
    with pytest.raises(Unready, match=r"\['a', 'c'\]"):
        release.same_files({"a", "b"}, ["b", "c"])


def test_the_python_that_runs_this_is_found() -> None:
    assert "{}.{}".format(*sys.version_info) in release.pythons()

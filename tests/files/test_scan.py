"""A directory as a stream of files."""

import os
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from waystation.core.errors import InvalidOption
from waystation.files.directory.scan import ScannedFile, ScanOptions, Skip, Walk

NOW_NS = 2_000_000_000 * 10**9


def walk(root: Path, **options: object) -> tuple[list[str], Counter[Skip]]:
    settings = ScanOptions(scan_dir=str(root), **options)  # type: ignore[arg-type]
    seen = list(Walk(settings, now_ns=NOW_NS))
    files = sorted(
        os.path.relpath(each.path, root) for each in seen if isinstance(each, ScannedFile)
    )
    return files, Counter(each for each in seen if isinstance(each, Skip))


def test_files_are_wanted_or_not_by_pattern(tmp_path: Path) -> None:
    """T-3: include_globs and exclude_globs."""
    for name in ("a.pdf", "b.tmp", "sub/c.txt", "sub/deep/d.pdf", ".DS_Store"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert walk(tmp_path) == (["a.pdf", "sub/c.txt", "sub/deep/d.pdf"], {Skip.EXCLUDED: 2})
    assert walk(tmp_path, include_globs=("**/*.pdf",))[0] == ["a.pdf", "sub/deep/d.pdf"]


def test_the_walk_never_leaves_the_directory(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    (root / "sub").mkdir(parents=True)
    secret.mkdir()
    (secret / "key.pem").touch()
    (root / "sub" / "a.txt").touch()
    (root / "out.pem").symlink_to(secret / "key.pem")
    (root / "up.pem").symlink_to("../secret/key.pem")
    (root / "way_out").symlink_to(secret)
    (root / "round").symlink_to(root)
    (root / "inside.txt").symlink_to(root / "sub" / "a.txt")
    (root / "nowhere").symlink_to(root / "missing")
    files, skipped = walk(root)
    assert files == ["inside.txt", "sub/a.txt"]
    assert skipped == {Skip.OUTSIDE: 3, Skip.SPECIAL: 1, Skip.VANISHED: 1}


def test_a_root_that_is_a_link_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (found,) = list(Walk(ScanOptions(scan_dir=str(tmp_path / "link")), now_ns=NOW_NS))
    assert isinstance(found, ScannedFile)
    assert found.path == str(tmp_path / "real" / "a")


def test_what_is_no_plain_file_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert walk(tmp_path) == ([], {Skip.SPECIAL: 1})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "a").touch()
    assert walk(tmp_path) == (["a"], {Skip.UNREADABLE: 1})


def test_a_directory_that_vanishes_is_counted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    settings = Walk(ScanOptions(scan_dir=str(tmp_path)))
    (tmp_path / "sub").rmdir()
    assert list(settings.under(str(tmp_path / "sub"))) == [Skip.VANISHED]


@pytest.mark.parametrize(
    ("age_s", "fresh"), [(0, True), (1.9, True), (2.1, False), (-1, True), (-3600, False)]
)
def test_a_file_that_may_still_be_being_written_waits(
    tmp_path: Path, age_s: float, fresh: bool
) -> None:
    """F-T16: a file must have been left alone for the settle time; odd clocks do not hide it."""
    (tmp_path / "a").touch()
    at = NOW_NS - round(age_s * 1e9)
    os.utime(tmp_path / "a", ns=(at, at))
    files, skipped = walk(tmp_path)
    assert (files == [], skipped[Skip.FRESH]) == (fresh, int(fresh))


def test_odd_files_are_files(tmp_path: Path) -> None:
    names = [b"two\nlines", b"caf\xe9", b"empty", b"-rf *"]
    for name in names:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(10 * 2**30)
    seen = list(Walk(ScanOptions(scan_dir=str(tmp_path)), now_ns=NOW_NS))
    sizes = {
        os.fsencode(os.path.basename(f.path)): f.size for f in seen if isinstance(f, ScannedFile)
    }
    assert sizes == {**dict.fromkeys(names, 0), b"huge": 10 * 2**30}


def test_a_file_that_grows_under_another_clock_waits_until_it_rests(tmp_path: Path) -> None:
    now, file = [0.0], tmp_path / "a"
    file.write_text("half")
    old = tmp_path / "old"
    old.touch()
    os.utime(old, ns=(0, NOW_NS - 7200 * 10**9))
    walk = Walk(ScanOptions(scan_dir=str(tmp_path)), now_ns=NOW_NS, timer=lambda: now[0])

    def added() -> set[str]:
        return {os.path.basename(each.path) for each in walk if isinstance(each, ScannedFile)}

    # The share is ten minutes behind, so its files never look fresh to us.
    for text in ("half", "half and more"):
        file.write_text(text)
        os.utime(file, ns=(0, NOW_NS - 600 * 10**9))
        assert added() == {"old"}
        now[0] += 1
    now[0] += 0.5
    assert added() == {"old"}
    now[0] += 0.5
    assert added() == {"a", "old"}


def test_a_file_that_is_open_for_writing_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    open_files = {str(tmp_path.resolve() / "a")}
    walk = Walk(ScanOptions(scan_dir=str(tmp_path)), now_ns=NOW_NS, open_files=open_files)
    assert list(walk) == [Skip.FRESH]
    open_files.clear()
    assert len([each for each in walk if isinstance(each, ScannedFile)]) == 1


def test_a_wide_and_a_deep_tree_take_no_more_memory(tmp_path: Path) -> None:
    def peak(root: Path) -> int:
        tracemalloc.start()
        count = sum(1 for _ in Walk(ScanOptions(scan_dir=str(root)), now_ns=NOW_NS))
        assert count
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    small, large = tmp_path / "small", tmp_path / "large"
    for root, count in ((small, 20), (large, 5_000)):
        root.mkdir()
        for number in range(count):
            (root / f"a rather long name of a file, number {number}").touch()
    peak(small)
    assert peak(large) < peak(small) + 100_000


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="scan_dir must be a directory, got"):
        Walk(ScanOptions(scan_dir=str(tmp_path / "missing")))

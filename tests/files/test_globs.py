"""Patterns for paths."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.errors import InvalidOption
from waystation.files.directory.globs import Globs


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("**/*", ["a", "a/b/c.txt", ".hidden"], []),
        ("**", ["a", "a/b"], []),
        ("**/*.tmp", ["a.tmp", "x/y/a.tmp"], ["a.tmp/b", "a.txt"]),
        ("*.tmp", ["a.tmp"], ["x/a.tmp"]),
        ("in/**/*.pdf", ["in/a.pdf", "in/x/y/a.pdf"], ["a.pdf", "out/in/a.pdf"]),
        ("in/**", ["in/a", "in/a/b"], ["a/in"]),
        ("**/x/**/y", ["x/y", "a/x/b/c/y"], ["y", "x/y/z"]),
        ("a?c.[ch]", ["abc.c", "axc.h"], ["ac.c", "abc.o"]),
        ("**/*.{jpg,png}", ["a.jpg", "x/b.png"], ["a.gif"]),
        ("{a,b}/{c,d}", ["a/c", "b/d"], ["a/b"]),
        ("**/.DS_Store", [".DS_Store", "a/.DS_Store"], ["DS_Store"]),
        ("**/*.pdf", ["A.PDF", "x/b.Pdf"], ["a.PD", "aPDF"]),
        ("**/*.{JPG,tar.gz}", ["a.jpg", "x/b.TAR.GZ"], ["a.gz"]),
        ("In/**/scan-*.tif", ["In/scan-1.TIF"], ["in/scan-1.tif", "In/Scan-1.tif"]),
        ("README.md", ["README.MD"], ["readme.md"]),
        ("**/*.[ch]", ["a.c"], ["a.C"]),
        ("**/*.Straße", ["a.STRAßE"], ["a.STRASSE"]),
        ("**/*.pdf", ["two\nlines.pdf"], ["a.pdf\n"]),
    ],
)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if path not in Globs([pattern])] == []
    assert [path for path in no if path in Globs([pattern])] == []


@given(st.text(alphabet="ab*?/[]{},.", max_size=20), st.text(alphabet="ab/.", max_size=20))
def test_no_pattern_is_a_surprise(pattern: str, path: str) -> None:
    with contextlib.suppress(InvalidOption):
        assert (path in Globs([pattern])) in (True, False)


def test_a_pattern_cannot_be_made_to_think_for_long() -> None:
    globs = Globs(["**/" * 30 + "*a" * 60 + "b"])
    began = time.process_time()
    assert "/".join(["a" * 200] * 60) not in globs
    assert time.process_time() - began < 5


def test_a_pattern_may_not_stand_for_too_many() -> None:
    with pytest.raises(InvalidOption, match="at most"):
        Globs(["{a,b,c,d}" * 6])
    with pytest.raises(InvalidOption, match="empty"):
        Globs([""])

"""A program recorded in a terminal, and the picture that is drawn of it."""

import sys
from xml.etree import ElementTree

import pytest

from tests.support.project import ROOT
from tools import record

PROGRAM = r"print('one\x1b[32m green\x1b[0m'); print('two'); print('\x1b[1A\x1b[2Kthree & four')"


def test_what_stands_there_at_the_end_is_what_a_terminal_shows() -> None:
    shown, took = record.record([sys.executable, "-c", PROGRAM])
    last = {each.row: each.spans for each in shown if each.until is None}
    assert [span.text for span in last[1]] == ["one", " green"]
    assert [span.look for span in last[1]] == ["", "g"]
    assert [span.text for span in last[2]] == ["three & four"]
    assert took > 0


def test_a_line_that_changes_is_shown_for_as_long_as_it_was_there() -> None:
    then = record.Shown(0, (record.Span(0, "1 of 2", ""),), 1.0, 2.0)
    now = record.Shown(0, (record.Span(0, "2 of 2", "b"),), 2.0, None)
    picture = record.draw([then, now], 4.0, "counting <fast>")
    assert ElementTree.fromstring(picture)[0].text == "counting <fast>"
    assert (
        "from{visibility:hidden}10.00%{visibility:visible}20.00%,to{visibility:hidden}" in picture
    )
    assert "from{visibility:hidden}20.00%{visibility:visible}to{visibility:visible}" in picture


def test_a_program_that_fails_is_not_drawn() -> None:
    with pytest.raises(SystemExit, match="ended with 3"):
        record.record([sys.executable, "-c", "raise SystemExit(3)"])


def test_the_picture_of_the_demo_ends_well_and_is_small() -> None:
    picture = (ROOT / "docs" / "pictures" / "demo.svg").read_text()
    assert "Nothing was lost and nothing happened twice." in picture
    assert len(picture) < 100_000

"""Answers on a terminal."""

import sys

import pytest

from waystation.pipeline.ask import Answer
from waystation.pipeline.commands.shared import print_answer

ANSWER = Answer(
    ["job_id", "tries", "reason"],
    [("a-long-id-of-a-job", 1, "x" * 90), ("b", None, None)],
)


def test_a_table_in_a_file_is_as_wide_as_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(ANSWER, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "job_id              tries  reason",
        "a-long-id-of-a-job      1  " + "x" * 90,
        "b                       -  -",
    ]


def test_one_long_text_does_not_fill_up_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(Answer(["data", "n"], [("x" * 99_999, 1), ("y", 2)]), as_json=False)
    assert [len(line) for line in capsys.readouterr().out.splitlines()] == [203, 100_002, 203]


def test_a_table_on_a_terminal_cuts_the_widest_column_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    print_answer(ANSWER, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [len(line) for line in lines] == [33, 60, 28]
    assert lines[1] == f"a-long-id-of-a-job      1  {'x' * 32}…"


def test_no_column_is_cut_to_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "5")
    print_answer(ANSWER, as_json=False)
    assert capsys.readouterr().out.splitlines()[1] == "a-long-id-o…      1  xxxxxxxxxxx…"


def test_a_value_stays_on_its_line_and_cannot_write_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_answer(Answer(["reason"], [("two\nlines \x1b[31m",)]), as_json=False)
    assert capsys.readouterr().out.splitlines()[1] == r"two\nlines \x1b[31m"


def test_an_answer_without_rows_shows_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(Answer(["a", "b"], []), as_json=False)
    assert capsys.readouterr().out == "a  b\n"

"""Lists on the command line."""

import pytest

from waystation.core.app.commands import list_rows


def test_a_list_that_is_cut_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    list_rows([("1",), ("2",), ("3",)], none="nothing", most=2)
    assert capsys.readouterr() == ("1\n2\n", "only 2 are shown, there are more: --count\n")

    list_rows([("1",), ("2",)], none="nothing", most=2)
    assert capsys.readouterr() == ("1\n2\n", "")

import pytest

from waystation.core.app.invocation import Invocation, in_one_line
from waystation.core.errors import (
    InvalidSetting,
    LeaseLost,
    StoreBusy,
    StoreUnreachable,
    StoreUnsuitable,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidSetting("no such key"), 2),
        (StoreUnsuitable("wrong policy"), 2),
        (StoreBusy("loading"), 69),
        (LeaseLost("job 7"), 1),
    ],
)
def test_an_error_of_ours_is_its_sentence_and_a_code(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    with pytest.raises(SystemExit) as ended, in_one_line(Invocation()):
        raise error
    assert ended.value.code == code
    assert capsys.readouterr().err == f"waystation: {error}\n"


def test_a_store_that_does_not_answer_comes_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended, in_one_line(Invocation()):
        raise StoreUnreachable("nobody answers.")
    assert ended.value.code == 69
    output = capsys.readouterr().err
    assert output == (
        "waystation: nobody answers; start it, or name another in WAYSTATION_STORE__URL\n"
    )


def test_an_error_of_nobody_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, in_one_line(Invocation()):
        raise KeyError("a\nb")
    assert ended.value.code == 1
    output = capsys.readouterr().err
    assert output.startswith("waystation: this should not happen (KeyError")
    assert len(output.splitlines()) == 1


def test_debug_lets_the_error_through() -> None:
    with pytest.raises(LeaseLost), in_one_line(Invocation(debug=True)):
        raise LeaseLost("job 7")

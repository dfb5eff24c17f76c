"""Every statement of the spec, and every fault found in it, has a test that names it."""

import pytest

from tests.support.mentions import missing

FOLDERS = ("waitingroom", "browser")


@pytest.mark.parametrize(("kind", "count"), [("W-", 36), ("F-W", 21), ("F", 39)])
def test_every_number_is_named_by_a_test(kind: str, count: int) -> None:
    assert list(missing(kind, count, *FOLDERS)) == []

"""Nothing of the spec is left without a test."""

import pytest

from tests.support.mentions import missing

FOLDERS = ("files", "laws", "chaos")


@pytest.mark.parametrize(("kind", "count"), [("T-", 44), ("F-T", 19)])
def test_every_number_is_named_by_a_test(kind: str, count: int) -> None:
    assert missing(kind, count, *FOLDERS) == []

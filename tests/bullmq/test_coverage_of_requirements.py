"""Every statement of the spec, and every fault found in it, has a test that names it."""

import pytest

from tests.support.mentions import missing

FOLDERS = ("bullmq", "wire", "laws", "chaos")


@pytest.mark.parametrize(("kind", "count"), [("P-", 54), ("D-", 49), ("F-P", 18), ("F-D", 10)])
def test_every_number_is_named_by_a_test(kind: str, count: int) -> None:
    assert missing(kind, count, *FOLDERS) == []

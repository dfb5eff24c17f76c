"""Planted bugs have a place in the code, and tests that exist."""

import pytest

from tools.mutants import Mutant, planted, read
from tools.step import ROOT


@pytest.mark.parametrize("mutant", read(), ids=lambda mutant: mutant.name)
def test_each_bug_can_be_planted_and_names_tests_that_exist(mutant: Mutant) -> None:
    healthy = (ROOT / mutant.file).read_text()
    assert planted(mutant, healthy) != healthy
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert not name or f"def {name.partition('[')[0]}" in (ROOT / file).read_text()
        assert (ROOT / file).exists()


def test_there_are_enough_of_them_and_no_name_is_taken_twice() -> None:
    names = [mutant.name for mutant in read()]
    assert len(set(names)) == len(names) >= 25

"""Failures are grouped by their causes: adjusted Rand index over corpora with known causes."""

import math
import random
from collections import Counter
from collections.abc import Hashable, Sequence

import pytest

from tests.pipeline.failure_corpora import CAUSED, CORPORA, DURING
from waystation.core import fingerprints

WANTED = 0.95
SEEDS = (1815, 1852)


def adjusted_rand_index(wanted: Sequence[Hashable], found: Sequence[Hashable]) -> float:
    """How well two groupings agree: 1 when they are equal, 0 by chance."""

    def pairs(groups: Sequence[Hashable]) -> int:
        return sum(math.comb(many, 2) for many in Counter(groups).values())

    both = pairs(list(zip(wanted, found, strict=True)))
    by_chance = pairs(wanted) * pairs(found) / math.comb(len(wanted), 2)
    most = (pairs(wanted) + pairs(found)) / 2
    return (both - by_chance) / (most - by_chance)


def test_the_index_is_one_for_equal_groups_and_zero_for_one_group_of_all() -> None:
    assert adjusted_rand_index("aabbc", "xxyyz") == 1
    assert adjusted_rand_index("aabbc", "xxxxx") == 0
    assert adjusted_rand_index("aabb", "xyxy") == pytest.approx(-0.5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("corpus", CORPORA)
def test_messages_are_grouped_by_their_causes(
    corpus: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = CORPORA[corpus](random.Random(seed))
    causes = [each.cause for each in messages]
    assert len(messages) >= 1_000
    assert len(set(causes)) >= 40
    groups = [fingerprints.fingerprint(each.text) for each in messages]
    index = adjusted_rand_index(causes, groups)
    with capsys.disabled():
        print(f"\n  {corpus}: adjusted Rand index {index:.3f}")
    assert index >= WANTED


def test_the_status_of_an_answer_is_a_cause_and_other_numbers_are_not() -> None:
    def is_one(*texts: str) -> bool:
        return len(set(map(fingerprints.fingerprint, texts))) == 1

    assert not is_one(*(f"Request failed with status code {code}" for code in (404, 500)))
    assert not is_one(*(f"HTTP {code} from 10.0.0.7" for code in (429, 503)))
    assert not is_one(*(f"exited with code {code}" for code in (1, 137)))
    assert is_one(*(f"status {number} of the machine" for number in (9, 17, 4041)))
    assert is_one(*(f"took {number} ms" for number in (404, 500)))


def test_an_error_that_was_raised_from_another_one_belongs_to_the_group_of_the_other() -> None:
    frame = 'Traceback (most recent call last):\n  File "a.py", line 3, in pay\n'
    inner, outer = f"{frame}KeyError: 'iban'\n", f"{frame}JobFailed: job 7\n"
    raised_from = f"{inner}\n{CAUSED}\n\n{outer}"
    assert fingerprints.signature(raised_from) == "KeyError: 'iban'"
    assert fingerprints.error_class(raised_from) == "KeyError"
    assert fingerprints.signature(f"{inner}\n{DURING}\n\n{outer}") == "JobFailed: job <n>"

import os
import re
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.identity import lease_token, ordered_id, worker_name

instants = st.integers(min_value=0, max_value=2**48 - 1)


def test_a_worker_is_named_after_its_host_and_process() -> None:
    name = worker_name(host="till-3", pid=42, bits=Random(1))
    assert re.fullmatch(r"till-3-42-[0-9a-f]{8}", name)
    assert f"-{os.getpid()}-" in worker_name()


@given(st.text(max_size=40))
def test_a_worker_name_fits_into_a_key_whatever_the_host_is_called(host: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._-]+-7-[0-9a-f]{8}", worker_name(host=host, pid=7))


@pytest.mark.parametrize("host", ["", ":::", "  "])
def test_a_host_without_a_usable_name_is_a_worker(host: str) -> None:
    assert worker_name(host=host, pid=7).startswith("worker-7-")


def test_names_and_tokens_differ_each_time() -> None:
    assert len({worker_name() for _ in range(100)}) == 100
    assert len({lease_token() for _ in range(1000)}) == 1000


def test_a_lease_token_is_a_random_uuid() -> None:
    assert UUID(lease_token()).version == 4


def test_the_same_dice_give_the_same_names() -> None:
    assert lease_token(Random(5)) == lease_token(Random(5))
    assert ordered_id(9, Random(5)) == ordered_id(9, Random(5))


@given(instants, instants)
def test_ids_sort_by_the_instant_they_were_made(one: int, other: int) -> None:
    first, second = sorted((one, other))
    if first != second:
        assert ordered_id(first) < ordered_id(second)


@given(instants)
def test_an_ordered_id_is_a_uuid_of_version_seven_with_its_time_inside(instant: int) -> None:
    made = UUID(ordered_id(instant))
    assert made.version == 7
    assert made.int >> 80 == instant

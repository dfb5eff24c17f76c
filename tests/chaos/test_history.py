"""A judge that cannot convict would acquit everybody."""

from tests.chaos.history import History, Verdict


def test_everything_that_ends_once_is_clean() -> None:
    history = History()
    for id in ("1", "2"):
        history.acknowledge(id)
    history.end(["2", "1"])
    assert history.verdict().is_clean


def test_lost_duplicated_and_unexpected_work_is_named() -> None:
    history = History()
    for id in ("lost", "twice", "fine"):
        history.acknowledge(id)
    history.end(["twice", "fine", "twice", "stranger"])
    assert history.verdict() == Verdict(["lost"], ["twice"], ["stranger"], [])
    assert not history.verdict().is_clean


def test_work_that_may_or_may_not_have_arrived_is_neither_lost_nor_unexpected() -> None:
    history = History()
    history.ask("unsure")
    assert history.verdict().is_clean
    history.end(["unsure"])
    assert history.verdict().is_clean


def test_an_outcome_of_somebody_who_had_lost_the_work_is_stale() -> None:
    history = History()
    for id in ("stale", "fine"):
        history.acknowledge(id)
        history.claim(id)
        history.claim(id)
    history.end_of_claim("fine", 2)
    history.end_of_claim("stale", 1)
    assert history.verdict() == Verdict([], [], [], ["stale"])
    assert not history.verdict().is_clean

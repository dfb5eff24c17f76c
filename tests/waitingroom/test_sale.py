"""How a sale over HTTP is judged by the events of its room."""

from xml.etree import ElementTree

from benchmarks.room.sale import Followed, Sale, Sample, picture


def happened(followed: Followed, *entries: tuple[str, str]) -> None:
    for seq, (event, who) in enumerate(entries):
        followed.take({"event": event, "subject": who, "at": f"{1000 * seq}", "seq": f"{seq}"})


def test_whoever_takes_a_missed_turn_back_is_not_called_twice() -> None:
    followed = Followed()
    happened(
        followed,
        ("admitted", "ann"), ("missed", "ann"), ("recovered", "ann"), ("admitted", "ann"),
        ("claimed", "ann"), ("admitted", "bob"), ("admitted", "bob"), ("claimed", "bob"),
    )  # fmt: skip
    followed.take({"event": "changed", "at": "9000"})
    assert followed.again == ["bob"]
    assert (len(followed.called), followed.calls.total(), followed.returned) == (2, 4, 1)
    assert followed.called["ann"] == 0.0
    assert followed.order == [0, 5]


def test_the_picture_of_a_sale_is_one() -> None:
    samples = [Sample(60.0 * at, 100 * at, 10 + at, 3, 40) for at in range(20)]
    waits = [(float(at), 1.0, 3.0, 2.0) for at in range(18)]
    root = ElementTree.fromstring(picture(Sale([], samples, waits), 12.0))
    assert root.tag.endswith("svg")
    assert "the operator adds seats" in "".join(root.itertext())

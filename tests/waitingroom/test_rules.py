"""Rules of a room: what they close, whatever a path is spelled like."""

import json
import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.waitingroom.middleware.spellings import LISTED, SITES, spellings, taken_for, words
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.waitingroom.rules import (
    Rule,
    WrittenRule,
    closing,
    readings,
    rule_of,
    stored_rules,
)

LISTS = [
    [Rule(queue="shop", path="/checkout*")],
    [
        Rule(queue="", path="/checkout/assets/*", action="bypass"),
        Rule(queue="shop", path="/checkout*"),
    ],
    [Rule(queue="", path="/*.css", action="bypass"), Rule(queue="shop", path="/checkout*")],
    [Rule(queue="", path="/a*", action="bypass"), Rule(queue="shop", path="/checkout*")],
]
PARTS = words(r"""
    checkout CHECKOUT %63heckout assets a pay x.css .. . %2e%2e %252e%252e ..; ;x.css %3fx.css
    %23.css ..%2f %2f.. \..\ .%09. %ff %c0%ae. % %u0063heckout ö
""")
PATHS = st.lists(st.sampled_from(["", "\x01", *PARTS]), min_size=1, max_size=6).map(
    lambda parts: "/" + "/".join(parts)
)


def _first(rules: list[Rule], reading: str) -> str:
    return next((rule.action for rule in rules if rule.fits(reading)), "bypass")


@pytest.mark.parametrize("rules", LISTS)
@given(path=PATHS)
@example("/checkout/assets/../pay")
@example("/checkout/assets/%2e%2e/pay")
@example("/checkout/assets/..%2fpay")
@example("/checkout/pay/..;/assets/x")
@example("/checkout/pay;x.css")
@example("/checkout/pay%3Fx.css")
@example("/checkout/pay/../a")
def test_what_some_site_would_answer_as_protected_does_not_pass(
    rules: list[Rule], path: str
) -> None:
    read = {name: site(path).lower() for name, site in SITES.items()}
    protected = {name: each for name, each in read.items() if _first(rules, each) == "queue"}
    with suppress(InvalidInput):  # refused altogether
        assert closing(rules, "GET", [path], {}) or not protected, protected


@pytest.mark.parametrize("path", [*LISTED, *spellings()[-40:]])
def test_every_spelling_of_a_path_has_to_wait(path: str) -> None:
    assert closing(LISTS[0], "GET", [path], {}) or not taken_for(path)
    assert not closing([Rule(queue="shop", path="/cart*")], "GET", [path], {})


@pytest.mark.parametrize("letters", ["s\u212a\u0131", "\u017fk\u0130", "\u017f\u212a\u0131"])
def test_letters_that_ignoring_case_makes_the_same_are_the_same(letters: str) -> None:
    rules = [Rule(queue="shop", path="/ski*")]
    assert re.fullmatch("(?i)ski", letters)
    for path in (f"/{letters}", f"/{quote(letters)}", f"/{quote(quote(letters))}/pass"):
        assert closing(rules, "GET", [path], {}), path


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/checkout-story/../blog",
        "/products;colour=red/12",
        "/a%20b",
        "/caf%C3%A9",
        "/blog/checkout",
    ],
)
def test_paths_that_only_look_odd_pass(path: str) -> None:
    if ".." not in path:
        assert not closing(LISTS[0], "GET", [path], {})
    assert not closing([Rule(queue="shop", path="/cart*")], "GET", [path], {})


def test_what_opens_opens_its_own_part() -> None:
    for path in ("/checkout/assets/x.css", "/checkout/assets/100%25", "/checkout/assets/a;b/c"):
        assert not closing(LISTS[1], "GET", [path], {}), path
    # A site may answer it as the page without the slash.
    assert closing(LISTS[1], "GET", ["/checkout/assets/"], {})


def test_a_path_that_two_rooms_could_be_meant_by_needs_both() -> None:
    rules = [Rule(queue="vip", path="/vip*"), Rule(queue="shop", path="/checkout*")]
    found = closing(rules, "GET", ["/vip/../checkout"], {})
    assert [rule.queue for rule in found] == ["vip", "shop"]
    assert [rule.queue for rule in closing(rules, "GET", ["/vip/"], {})] == ["vip"]


def test_a_path_past_reading_is_refused_and_costs_little() -> None:
    with pytest.raises(InvalidInput, match="written plainly"):
        readings("/" + "%2525252e;a/../\\//%3f" * 400)
    # Short, and read in seven hundred ways.
    with pytest.raises(InvalidInput, match="written plainly"):
        readings("/\\;..//%2525..%c0%af%2f%2e//%u002f%252e%5c?")


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        ({"path": "/checkout*", "methods": ["get"]}, True),
        ({"path": "/checkout*", "methods": ["POST"]}, False),
        ({"path": "/*", "header": "X-Partner: yes"}, False),
        ({"path": "/*", "header": "X-Partner"}, False),
        ({"path": "/*", "header": "X-Partner:"}, False),
        ({"path": "/*", "header": "Accept"}, True),
        ({"path": "/check[o]ut"}, False),
        ({"path": "/checkou?"}, None),
        ({"path": "/checkout", "methods": ["GET, POST"]}, None),
        ({"path": "/*", "header": "a partner: yes"}, None),
    ],
)
def test_a_condition_that_cannot_be_read_never_widens_a_rule(
    rule: dict[str, Any], fits: bool | None
) -> None:
    said = WrittenRule(**rule)
    if fits is None:
        with pytest.raises(InvalidOption):
            rule_of("shop", said)
        return
    found = closing([rule_of("shop", said)], "GET", ["/checkout"], {"accept": "text/html"})
    assert bool(found) is fits


SHORT = st.text("aB/*", max_size=7)


@given(SHORT, SHORT.map(lambda path: "/" + path.replace("*", "%2A")))
@example("a*a", "/a")
@example("*ab*b", "/ab")
@example("**", "/")
def test_a_star_means_what_it_means_to_a_regular_expression(rule: str, path: str) -> None:
    texts = [re.escape(each) for each in f"/{rule}".lower().split("*")]
    wanted = re.compile(".*".join(texts), re.DOTALL)
    read = path.lower()
    found = [wanted.fullmatch(each) is not None for each in (read, read.rstrip("/") or "/")]
    assert Rule(queue="shop", path=f"/{rule}").fits(read) is any(found)
    assert Rule(queue="", path=f"/{rule}", action="bypass").fits(read) is all(found)


STARS = "/*/a/*/b/*/c/*/d/*/e/*/f"


@pytest.mark.parametrize("path", ["/a/b/c/d/e" * 800, "/x/a/y/b/z" * 800, "/a//b//c//d//e/" * 600])
def test_a_long_path_costs_no_more_than_its_length(path: str) -> None:
    """A regular expression tries this for years, and nothing else runs meanwhile."""
    rule = Rule(queue="shop", path=STARS)
    assert not closing([rule], "GET", [path], {})
    assert closing([rule], "GET", [f"{path}/x/a/x/b/x/c/x/d/x/e/x/f"], {})


def test_a_path_that_climbs_costs_no_more_than_its_length() -> None:
    """Whoever copies what is left at each step copies a quarter of a million parts as often."""
    with pytest.raises(InvalidInput, match="written plainly"):
        readings("/a" * 250_000 + "/.." * 250_000)


def test_only_a_star_stands_for_anything() -> None:
    rule = Rule(queue="shop", path="/item[1]*")
    assert closing([rule], "GET", ["/item[1]"], {})
    assert closing([rule], "GET", ["/item%5B1%5D/x"], {})
    assert not closing([rule], "GET", ["/item1"], {})
    assert closing([Rule(queue="shop", path="/gr%C3%B6%C3%9Fe*")], "GET", ["/größe"], {})
    assert closing([Rule(queue="shop", path="/größe*")], "GET", ["/gr%C3%B6%C3%9Fe"], {})
    assert closing([Rule(queue="shop", path="/a%2A")], "GET", ["/a%2a"], {})
    assert not closing([Rule(queue="shop", path="/a%2A")], "GET", ["/about"], {})


NOT_UNDERSTOOD = st.dictionaries(
    st.sampled_from(["path", "methods", "header", "cookie", "agent", "action", "country"]),
    st.one_of(st.none(), st.integers(), st.dictionaries(st.text(), st.none(), max_size=1)),
    min_size=1,
)


@given(st.sampled_from(["queue", "bypass", "block"]), NOT_UNDERSTOOD, st.integers(1, 1000))
def test_a_rule_that_is_not_understood_opens_nothing(
    action: str, odd: dict[str, Any], cut: int
) -> None:
    """A later version, or a hand, has written anything into one rule; or the text is cut."""
    text = json.dumps([{"path": "/checkout*", "action": action, **odd}])
    behind = Rule(queue="next", path="/checkout*")
    for said in (text, text[: cut % len(text)] or "["):
        rules = [rule_of("shop", each) for each in stored_rules(said)]
        assert closing([*rules, behind], "GET", ["/checkout"], {})
        assert action == "bypass" or closing(rules, "GET", ["/checkout"], {})

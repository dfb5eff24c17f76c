"""What becomes of the values of a job before they are stored."""

import base64
import json
import random
import string
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.settings.section import Secret
from waystation.pipeline.bronze.archive import from_text, to_text
from waystation.pipeline.payloads.paths import JsonPath
from waystation.pipeline.payloads.rules import (
    Action,
    PayloadSettings,
    QueueRules,
    Rule,
    Rules,
    Sealer,
)

KEYS = Secret("new=" + base64.b64encode(bytes(range(32))).decode())
OLD = "old=" + base64.b64encode(bytes(range(1, 33))).decode()


def rule(action: str, path: str = "", pattern: str = "", queue: str = "*") -> Rule:
    return Rule(action=Action(action), path=path, pattern=pattern, queue=queue)


def stored(document: Any, *rules: Rule, queue: str = "mail") -> Any:
    """A document as it would be stored."""
    return json.loads(rules_of(*rules, queue=queue).document(json.dumps(document)).text or "")


def rules_of(*rules: Rule, queue: str = "mail") -> QueueRules:
    return Rules(PayloadSettings(rules=rules, keys=KEYS)).of(queue)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$.order.id", [7]),
        ("order.id", [7]),
        ("$.items[0].sku", ["a"]),
        ("$.items[*].sku", ["a", "b"]),
        ("$..sku", ["a", "b"]),
        ('$["odd key"]', [1]),
        ("$.order.nothing", []),
        ("$.order.id.more", []),
        ("$.items[5]", []),
    ],
)
def test_a_path_leads_to_its_values(path: str, values: list[Any]) -> None:
    document = {"order": {"id": 7}, "items": [{"sku": "a"}, {"sku": "b"}], "odd key": 1}
    assert list(JsonPath.parse(path).values(document)) == values


@pytest.mark.parametrize("path", ["", "$", "$.", "$..", "$.a..", "$a", "$.a[", "$.a[x]", "a b[-1]"])
def test_a_path_that_cannot_be_followed_is_refused(path: str) -> None:
    with pytest.raises(InvalidOption, match="wanted a path"):
        JsonPath.parse(path)


def test_values_are_dropped_hashed_and_encrypted_by_path() -> None:
    document = {"card": {"number": "4111", "brand": "visa"}, "mail": "ada@x.org", "n": [1, 2]}
    found = stored(
        document, rule("drop", "$.card"), rule("hash", "$.mail"), rule("encrypt", "$.n[*]")
    )
    assert found.keys() == {"mail", "n"}
    assert found["mail"] == Sealer(KEYS).hashed("ada@x.org")
    assert found["mail"].startswith("hash:")
    assert json.loads(Sealer(KEYS).opened(json.dumps(found["n"]))) == [1, 2]
    assert "4111" not in json.dumps(found)


def test_the_first_rule_that_fits_counts() -> None:
    document = {"card": {"number": 1, "brand": 1, "deep": {"cvc": 1}}}
    found = stored(document, rule("keep", "$.card.brand"), rule("drop", "$.card.*"))
    assert found == {"card": {"brand": 1}}
    found = stored(document, rule("keep", "$.card.deep.cvc"), rule("drop", "$.card"))
    assert found == {"card": {"deep": {"cvc": 1}}}
    assert stored(document, rule("drop", "$.card"), rule("keep", "$.card.brand")) == {}
    number = {"id": "4111111111111111", "card": {"no": "4111111111111111"}}
    digits = rule("drop", pattern=r"\d{16}")
    kept = stored(number, rule("keep", "$.id"), digits, rule("drop", "$..no"))
    assert kept == {"id": "4111111111111111", "card": {}}
    assert stored(number, rule("keep", "$.card"), rule("drop", "$..no"), digits) == {
        "id": "***",
        "card": {"no": "4111111111111111"},
    }
    assert stored(number, digits, rule("keep", "$.id"))["id"] == "***"
    sealed = stored(number, digits, rule("encrypt", "$.id"))["id"]
    assert json.loads(Sealer(KEYS).opened(json.dumps(sealed))) == "***"


def test_a_pattern_is_found_in_texts_names_and_numbers() -> None:
    document = {"note": "card 4111111111111111 ok", "n": 4111111111111111, "a@b.cd": ["x a@b.cd"]}
    found = stored(document, rule("drop", pattern=r"\b\d{16}\b"), rule("drop", pattern=r"\S+@\S+"))
    assert found == {"note": "card *** ok", "n": "***", "***": ["x ***"]}


def test_rules_hold_for_the_queues_that_they_name() -> None:
    assert stored({"a": 1}, rule("drop", "$.a", queue="mail*"), queue="mail-slow") == {}
    assert stored({"a": 1}, rule("drop", "$.a", queue="mail*"), queue="post") == {"a": 1}

    # A name counts before the pattern that it may be taken for.
    assert stored({"a": 1}, rule("drop", "$.a", queue="a[1]"), queue="a[1]") == {}
    assert stored({"a": 1}, rule("drop", "$.a", queue="a[1]"), queue="a1") == {}


def test_what_is_no_json_is_a_text_unless_something_may_be_hidden_in_it() -> None:
    only_pattern = rules_of(rule("drop", pattern="secret"))
    assert only_pattern.document("no json: secret").text == "no json: ***"
    assert only_pattern.document('{"a":NaN,"b":"\\u0073ecret"}').text is None
    assert only_pattern.texts('["at \\u0073ecret"]').text == '["at ***"]'


SECRET = "S3CRETWORD"
ODD = [
    "NaN",
    "-Infinity",
    '"\\ud800"',
    '"\\udc00\\ud800"',
    "1e999",
    "9" * 5000,
    '"a\tb"',
    '"a\x00b"',
    "[" * 3000 + "]" * 3000,
    "[" * 400 + "]" * 400,
    "1,}",
    "'x'",
    "/* x */ 1",
    "1",
    '{"card":"other","card":2}',
]
"""JSON that some reader accepts and another one does not."""
SPELLINGS = [SECRET, "\\u0053" + SECRET[1:], SECRET.replace("3", "\\u0033"), "hash:" + SECRET]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:12])
@pytest.mark.parametrize("action", ["drop", "hash", "encrypt"])
@pytest.mark.parametrize("where", [{"path": "$.card"}, {"path": "$..card"}, {"pattern": SECRET}])
def test_no_reader_of_json_finds_what_a_rule_has_taken_away(
    odd: str, action: str, where: dict[str, str]
) -> None:
    rules = rules_of(rule(action, **where))
    for written in SPELLINGS:
        for text in (
            f'{{"card":"{written}","x":{odd}}}',
            f'{{"x":{odd},"card":"{written}"}}',
            f'\ufeff{{"card":"{written}","x":{odd}}}',
            f'{{"card":"{written}","card":"{written}","x":{odd}}}',
            f'[{{"card":"{written}"}},{odd}]' if where != {"path": "$.card"} else "[]",
        ):
            left = rules.document(text)
            assert SECRET not in (left.text or "")
            assert SECRET not in lenient(left.text or "null")


def lenient(text: str) -> str:
    """What a reader finds that takes whatever Python's own takes."""
    try:
        return repr(json.loads(text.lstrip("\ufeff"), strict=False))
    except (ValueError, RecursionError):
        return text.encode().decode("unicode_escape", "replace")


MARKS = ["hash:", "enc:", "enc::", "enc:new:AAAA;", "enc:a:b", "***", '"enc:', "\\", '"', "\n"]
TEXTS = st.lists(st.sampled_from([*MARKS, "note x", "4111", "ü", "a b"]), max_size=4).map("".join)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.sampled_from(["drop", "hash"]))
def test_no_text_of_a_user_means_anything_to_a_rule(text: str, action: str) -> None:
    plain = "".join("x" if each in string.printable else each for each in text)
    for rules in ([rule(action, "$.card")], [rule("drop", "$.card"), rule("hash", pattern="Q{4}")]):
        found = stored({"card": text, "n": f"{text}QQQQ{text}"}, *rules)
        like = stored({"card": plain, "n": f"{plain}QQQQ{plain}"}, *rules)
        assert found.keys() == like.keys()
        assert found["n"] == like["n"].replace(plain, text) if plain else True
    assert text not in stored({"card": text}, rule("drop", "$.card"))


ENCRYPTING = st.lists(
    st.sampled_from(
        [
            rule("encrypt", "$..a b"),
            rule("encrypt", "$[0]"),
            rule("encrypt", "$.*"),
            rule("encrypt", pattern="note .*"),
            rule("encrypt", pattern=r"\d+"),
            rule("encrypt", pattern="enc:|;"),
            rule("keep", "$[1]"),
        ]
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(VALUES, ENCRYPTING)
@example(
    {"amount": 1, "text": 'see note x","amount":999,"y":"z'}, [rule("encrypt", pattern="note .*")]
)
@example(["4111 enc:new:AAAA;", 7], [rule("encrypt", pattern=r"\d+")])
def test_what_was_only_encrypted_is_opened_as_it_was(value: Any, rules: list[Rule]) -> None:
    left = rules_of(*rules).document(json.dumps(value))
    if any(each.action is Action.ENCRYPT for each in rules):
        assert left.is_whole
        assert json.loads(Sealer(KEYS).opened(left.text or "")) == value


def test_what_one_key_has_encrypted_is_read_while_it_is_in_the_ring() -> None:
    sealed = Sealer(OLD).encrypted({"a": "ü"})
    text = json.dumps({"x": sealed, "y": [sealed]})
    assert json.loads(Sealer(f"{KEYS},{OLD}").opened(text)) == {"x": {"a": "ü"}, "y": [{"a": "ü"}]}
    with pytest.raises(InvalidInput, match="the key 'old', which is not in keys"):
        Sealer(KEYS).opened(text)
    with pytest.raises(InvalidInput, match="cannot be decrypted"):
        Sealer(KEYS.replace("new", "old")).opened(text)


def test_equal_values_have_equal_hashes_and_never_equal_ciphers() -> None:
    sealer = Sealer(KEYS)
    assert sealer.hashed("a") == sealer.hashed("a") != sealer.hashed("b")
    assert sealer.encrypted("a") != sealer.encrypted("a")
    assert Sealer(OLD).hashed("a") != sealer.hashed("a")


def test_no_planted_secret_survives_in_any_shape() -> None:
    dice = random.Random(7)
    for turn in range(200):
        secret = f"S{dice.getrandbits(60):x}"
        document = planted(dice, secret, depth=4)
        found = stored({"top": document}, rule("drop", "$..secret"), rule("hash", pattern=secret))
        assert secret not in json.dumps(found), (turn, document)


def planted(dice: random.Random, secret: str, depth: int) -> Any:
    """A document with a secret somewhere in it, under its name or in a text."""
    if depth == 0:
        return dice.choice([{"secret": secret}, f"said {secret}.", [secret], {secret: 1}])
    inner = planted(dice, secret, depth - 1)
    return dice.choice([{"secret": inner, "a": inner}, [1, inner], {"b": inner, "c": None}])


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"rules": [{"action": "drop"}]}, "either a path or a pattern"),
        ({"rules": [{"action": "drop", "pattern": "("}]}, "pattern must be a regular expression"),
        ({"rules": [{"action": "keep", "pattern": "a"}]}, "keep needs a path"),
        ({"rules": [{"action": "hash", "path": "$.a"}]}, "keys must be set"),
        ({"keys": "short=YQ=="}, "16, 24 or 32 bytes"),
        ({"fields": {"Tenant": "$.a"}}, "lower-case"),
        ({"fields": {"tenant": "$"}}, "wanted a path"),
        ({"limit": 5}, "at least 1024"),
        ({"retain": 0}, "at least 1"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(given: Any, complaint: str) -> None:
    with pytest.raises(InvalidOption, match=complaint):
        settings_of(given)


def settings_of(given: Any) -> PayloadSettings:
    rules = [Rule(**{**each, "action": Action(each["action"])}) for each in given.get("rules", ())]
    whole: dict[str, Any] = {**given, "rules": rules}
    return PayloadSettings(**whole)


def test_settings_of_payloads_travel_to_sparks_processes_whole() -> None:
    rules = [Rule(action=Action.HASH, path="$.mail", queue="mail*")]
    settings = PayloadSettings(rules=rules, keys=KEYS, fields={"n": "$.n"}, limit=2048)
    arrived = from_text(to_text(settings))
    assert arrived == settings
    assert isinstance(arrived.keys, Secret)
    assert not from_text("").keep

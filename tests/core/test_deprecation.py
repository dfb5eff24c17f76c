"""Deprecations warn, are logged, last for two minor versions, and stand in the changelog."""

import ast
import logging
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.support.project import ROOT, SOURCE
from waystation import __version__
from waystation.core.deprecation import deprecated

EXAMPLE = {"what": "Queue.old", "instead": "Queue.new", "since": "7.0", "gone_in": "7.2"}
SHORTEST = 2
"""Minor versions for which what is deprecated goes on working, and shorter than no major one."""


def old() -> None:
    """Somebody's deprecated function."""
    deprecated(**EXAMPLE)


def test_whoever_uses_it_is_warned_at_their_own_line_and_it_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = r"Queue\.old is deprecated since 7\.0 and goes in waystation 7\.2: use Queue\.new"
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with pytest.warns(DeprecationWarning, match=said) as warned:
                old()
            assert warned[0].filename == __file__
    assert [each.getMessage().split()[0] for each in caplog.records] == ["deprecated"]


def calls(source: str) -> Iterator[dict[str, str]]:
    """The arguments of every call of `deprecated` in a program."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("deprecated"):
            given = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
            yield {"what": ast.literal_eval(node.args[0]), **given}


def complaint(call: Mapping[str, str], version: str, changelog: str) -> str | None:
    """What is wrong with a deprecation in this version."""
    here, since, gone = (
        tuple(map(int, each.split(".")[:2])) for each in (version, call["since"], call["gone_in"])
    )
    if here >= gone:
        return "its time is over: remove it"
    if gone[0] == since[0] and gone[1] - since[1] < SHORTEST:
        return f"it must last for {SHORTEST} minor versions"
    listed = re.findall(r"^### Deprecated\n(.*?)(?=^##|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if not any(f"`{call['what']}`" in section for section in listed):
        return "CHANGELOG.md does not list it under Deprecated"
    return None


def test_every_deprecation_is_announced_and_lasts() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    found = [call for file in SOURCE.rglob("*.py") for call in calls(file.read_text())]
    assert [(call, why) for call in found if (why := complaint(call, __version__, changelog))] == []


@pytest.mark.parametrize(
    ("version", "gone_in", "changelog", "wanted"),
    [
        ("7.0.3", "7.2", "### Deprecated\n- `Queue.old`\n", None),
        ("7.0.3", "8.0", "### Deprecated\n- `Queue.old`\n", None),
        ("7.2.0", "7.2", "### Deprecated\n- `Queue.old`\n", "its time is over: remove it"),
        ("7.0.0", "7.1", "### Deprecated\n- `Queue.old`\n", "it must last for 2 minor versions"),
        ("7.0.0", "7.2", "### Removed\n- `Queue.old`\n", "CHANGELOG.md does not list it"),
    ],
)
def test_one_that_ends_early_or_in_silence_is_found(
    version: str, gone_in: str, changelog: str, wanted: str | None
) -> None:
    words = {**EXAMPLE, "gone_in": gone_in}
    [call] = calls(
        "deprecated({what!r}, instead='', since={since!r}, gone_in={gone_in!r})".format(**words)
    )
    assert (complaint(call, version, changelog) or "").startswith(wanted or "")
    assert bool(wanted) == bool(complaint(call, version, changelog))

"""The finding of a check, in a plain sentence."""

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """It works, but somebody should know."""
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """The answer of one check; when all is not well, the sentence says what to do."""

    about: str
    verdict: Verdict
    sentence: str


def ok(about: str, sentence: str) -> Finding:
    """All is well."""
    return Finding(about, Verdict.OK, sentence)


def warn(about: str, sentence: str) -> Finding:
    """It works, but somebody should know."""
    return Finding(about, Verdict.WARN, sentence)


def fail(about: str, sentence: str) -> Finding:
    """It does not work until somebody acts."""
    return Finding(about, Verdict.FAIL, sentence)

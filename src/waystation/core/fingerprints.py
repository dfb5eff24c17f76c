"""Fingerprints of failures: error messages with ids, numbers, paths and quotations masked.

A message is cut to the line with the error, and every word that looks like a value is masked by its
shape, because ids, tokens and names cannot be listed. What names a part of a program or of a
protocol stays: a quoted key, attribute or constraint, the status of an HTTP answer, an exit code.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import NamedTuple

LONGEST = 200
"""Most characters of a signature."""
LOOKED_AT = 8_000
"""Characters of a message that are examined, from its start and from its end."""


class Mask(NamedTuple):
    """A pattern of values, and the text that replaces them."""

    pattern: str
    replacement: str
    """Its `\\1` is the first group of the pattern."""
    needs: str = ""
    """What all such values contain: that most texts have none is seen sooner so."""
    spared: str = ""
    """What such values look like and is none: it stays as it is."""


_B, _E = "(?<![A-Za-z0-9])", "(?![A-Za-z0-9])"
"""Start and end of a run of letters and digits; an underscore is neither."""
_HEX = "[0-9a-fA-F]"
_IPV4 = r"\d{1,3}(?:\.\d{1,3}){3}"
_PART = r"(?:[\w.@%+~=-]|<(?:id|time|address|email)>)++"
"""A part of a path, in which a value may be masked already."""
_CONSONANT = "[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]"
_WORD = "(?:[A-Z]?[a-z]{3,}+|[A-Z]{2,}+)"
"""A word, alone or part of a compound: `Http`, `request`, `XML`."""
_NAME_PART = rf"(?:{_WORD}{{0,5}}+[a-z]{{0,2}}\d{{0,4}}|[A-Z][a-z]?)"
"""A part of an identifier: `MailSender2`, `v3`, `by`."""
_ODD = rf"(?:[A-Z]{{2}}[a-z]+[A-Z]{{2}}|{_CONSONANT}{{7}})"
"""Letters that no identifier has: two pairs of capitals, or seven consonants."""
_HOLE = "<(?:id|n)>"
_JOINT = "[-_.:+/=]"

_STATUS = (
    # `status code 404`, `statusCode=404`, `HTTP/1.1 502`, `Error code: 400`
    r"(?:[Ss]tatus(?:[ _-]?[Cc]ode)?|(?:[Ee]rror|[Rr]esponse)[ _-]?[Cc]ode|HTTP(?:/[\d.]+)?)"
    r"[ :=]{1,2}[1-5]\d\d(?![\d.,]\d|\d)"
    # `503, message='Service Unavailable'`, `404 Client Error`
    rf"|{_B}[1-5]\d\d(?=, message=| (?:Client|Server) Error\b)"
    # `Exit code 137`, `exit status 1`, `exited with code 2`, `[Errno 13]`
    r"|(?:[Ee]xit(?:ed)?(?: with)? (?:code|status)|[Ee]rrno)[ :=]{1,2}-?\d{1,3}(?![\d.,]\d|\d)"
)
"""Numbers that are kinds of failures, with the words that say so."""
_CODE = rf"{_NAME_PART}(?:_{_NAME_PART})+|[\w$.]+\(\)|[a-z]{{3,}}(?:[A-Z][a-z]{{2,}})+"
"""What only programs have: `customer_id`, `User.getId()`, `amountMinor`."""
_BEFORE_A_NAME = (
    r"(?:KeyError:|(?:reading|attribute|column|constraint|field|key|property|argument|parameter"
    r"|option|named|function|method|relation|table|index|type|class)s?:?)"
)
_BEHIND_A_NAME = r" (?:object\b|is null\b|is not defined|is undefined|is required)"


def _names_in(mark: str) -> str:
    """Quotations that name a part of a program, by their shape or by the words around them."""
    name = rf"{mark}[A-Za-z_$][\w$.-]{{0,60}}(?:\(\))?{mark}"
    return rf"{mark}(?:{_CODE}){mark}|\b{_BEFORE_A_NAME} {name}|{name}(?={_BEHIND_A_NAME})"


MASKS = (
    Mask(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*+://[^\s'\"<>]+", "<url>", needs="://"),
    Mask(r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+", "<email>", needs="@"),
    # A JSON web token.
    Mask(r"\beyJ[\w-]+(?:\.[\w-]*)+", "<id>", needs="eyJ"),
    Mask(rf"{_B}{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}{_E}", "<id>", needs="-"),
    Mask(
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?",
        "<time>",
        needs=":",
    ),
    # IPv6, with brackets, a port, a zone or a length of its prefix, or without; before IPv4, which
    # it may end with.
    Mask(
        r"\[(?=[0-9a-fA-F:.]*:[0-9a-fA-F:.]*:)[0-9a-fA-F:.]+(?:%\w+)?\](?::\d+)?",
        "<address>",
        needs=":",
    ),
    Mask(
        rf"(?<![\w:])(?=[0-9a-fA-F:]*::|(?:{_HEX}{{1,4}}:){{7}})(?=:*{_HEX})"
        rf"(?:{_HEX}{{0,4}}:){{2,8}}(?:{_IPV4}(?::\d{{1,5}})?|\d{{5}}|{_HEX}{{0,4}})"
        r"(?:%\w+)?(?:/\d{1,3})?(?![\w:])",
        "<address>",
        needs=":",
    ),
    Mask(rf"{_B}{_IPV4}(?:[:/]\d+)?{_E}", "<address>", needs="."),
    Mask(rf"{_B}(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}{_E}", "<address>"),
    # An access key of AWS, which may have no digit.
    Mask(rf"{_B}A[KS]IA[A-Z0-9]{{16}}{_E}", "<id>"),
    # Base64, unless all between its signs are names, or it is a path of short ones.
    Mask(
        r"(?<![\w+/.-])(?=[\w+/]*[+/])(?=[\w+/]*\d)(?=[\w+/]*[a-z])(?=[\w+/]*[A-Z])"
        rf"(?!/?{_NAME_PART}(?:[+/_]{_NAME_PART})*+(?![\w+/]))(?!(?:/\w{{1,14}})+(?![\w+/]))"
        r"[A-Za-z0-9+/]{20,}={0,2}(?![\w+/=.])",
        "<id>",
    ),
    # Paths: absolute, from here or from home, and below a folder: the last kind has three parts, or
    # ends as a file does.
    Mask(rf"(?<![\w.])(?:(?:\.{{1,2}}|~)(?:/{_PART})+|(?:/{_PART}){{2,}})/?", "<path>", needs="/"),
    Mask(rf"(?<![\w.])[A-Za-z]:(?:\\{_PART})+", "<path>", needs=":\\"),
    Mask(rf"(?<![\w\\])\\\\{_PART}(?:\\{_PART})+", "<path>", needs="\\\\"),
    Mask(
        rf"(?<![\w.<>/@%+~-])[A-Za-z][\w.-]*+/(?:{_PART}/{_PART}(?:/{_PART})*+"
        r"|[\w-]*+[.][A-Za-z]{2,4}(?![\w.-]))/?",
        "<path>",
        needs="/",
    ),
    Mask(rf"{_B}0x{_HEX}+{_E}", "<id>", needs="0x"),
    Mask(r"'[^']{0,200}'", "<text>", needs="'", spared=_names_in("'")),
    Mask(r'"[^"]{0,200}"', "<text>", needs='"', spared=_names_in('"')),
    # A number with its unit.
    Mask(
        rf"(?<![\w-])(?:\d+(?:[.,]\d+)*(?=(?:[num\u00b5]?s|min|secs?|seconds|[KMGTk]i?B|bytes|px){_E})"
        rf"|\d{{1,4}}(?=[mhdxB]{_E}))",
        "<n>",
    ),
    # A long random text with - and _ in it, unless it is a name, or an id with a prefix.
    Mask(
        rf"(?<![\w-])(?=[\w-]*\d|[\w-]*{_ODD})(?=[\w-]*[a-z])(?=[\w-]*[A-Z])"
        r"(?!(?:[a-z]{1,8}_){1,3}[A-Za-z0-9]+(?![\w-]))"
        rf"(?!{_NAME_PART}(?:[-_]+{_NAME_PART})*+(?![\w-]))[\w-]{{20,}}(?![\w-])=*",
        "<id>",
    ),
    # An id with a prefix: ord_3f9a12, usr_9Qa13g; but not address_line2.
    Mask(
        rf"{_B}((?:[a-z]{{1,8}}_){{1,3}}|[A-Z]{{1,8}}_)(?!(?:[a-z]+|[A-Z]+)\d{{1,3}}{_E})"
        rf"(?=[A-Za-z]*\d|[a-z]+[A-Z]|[A-Z]+[a-z])[A-Za-z0-9]{{6,}}{_E}",
        r"\1<id>",
        needs="_",
    ),
    # Letters and digits mixed, and long, unless it is a word with a number behind it.
    Mask(
        rf"{_B}(?=[A-Za-z]*\d)(?=\d*[A-Za-z])"
        rf"(?!(?!{_HEX}+{_E}){_WORD}{{1,5}}+\d{{1,4}}{_E})[A-Za-z0-9]{{8,}}{_E}",
        "<id>",
    ),
    Mask(rf"{_B}(?=[a-z]*[A-Z])(?=[A-Z]*[a-z])(?=[A-Za-z]*{_ODD})[A-Za-z]{{16,}}{_E}", "<id>"),
    # Short ones, in which letters and digits take turns; and hex.
    Mask(
        rf"{_B}(?=[A-Za-z0-9]*\d[A-Za-z]+\d|[A-Za-z0-9]*[A-Za-z]\d+[A-Za-z])"
        rf"[A-Za-z0-9]{{4,7}}{_E}",
        "<id>",
    ),
    Mask(rf"{_B}(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{5,7}}{_E}", "<id>"),
    # A version with a letter, beside those without: gpt-4o, gpt-4.1.
    Mask(rf"(?<=[A-Za-z]-)\d{{1,2}}[a-z]{_E}", "<n>", needs="-"),
    # A mixed part of something that is joined by - or _: the a62 of a62-z.
    Mask(
        rf"{_B}(?:(?<=[-_])|(?=[A-Za-z0-9]+[-_][A-Za-z0-9<]))(?=[A-Za-z]*\d)(?=\d*[A-Za-z])"
        rf"(?![A-Za-z]{{3,}}\d+{_E})[A-Za-z0-9]+{_E}",
        "<id>",
    ),
    Mask(r"(?<!\d)\d+(?:[.,]\d+)*", "<n>", spared=_STATUS),
    # What is joined to a masked value and is no word of its own belongs to it.
    Mask(rf"{_HOLE}-(?:[A-Za-z]+<n>|{_CONSONANT}{{4,6}}){_E}", "<id>", needs=">-"),
    Mask(rf"({_HOLE})(?:[-_][A-Za-z]{_E})+", r"\1", needs=">"),
    Mask(rf"{_B}(?:[A-Za-z][-_])++(?={_HOLE})", "", needs="<"),
    Mask(rf"(?:{_HOLE}{_JOINT}*)*<id>(?:{_JOINT}*{_HOLE})*", "<id>", needs="<id>"),
    Mask(r"<n>(?:[-_:/]<n>)+", "<n>", needs="<n>"),
    Mask(r"(?<![A-Za-z0-9>])[-_]+(?=<id>)", "", needs="<id>"),
    Mask(r"<id>[-_=]+(?![A-Za-z0-9<])", "<id>", needs="<id>"),
    Mask(r"\s+", " "),
)
"""In this order: special patterns before general ones."""

TRACEBACK = "Traceback (most recent call last):"
HANDLED = r"(?s)\A.*\nDuring handling of the above exception, another exception occurred:\n"
"""Errors of Python's that others followed."""
WRAPPED = r"(?s)(?<!\n)\n+The above exception was the direct cause of the following exception:\n.*"
"""Errors of Python's that were raised from another one."""
BARS = r"(?m)^[ \t]*\|[ ]?"
"""The bars that Python draws in front of the errors in an exception group."""
PYTHON = (
    r"(?s)\A.*\n[ \t]*File \"[^\n]*\", line \d[^\n]*+\n(?:[ \t][^\n]*+\n)*+"
    r"([^\s+][^\n]*)"
)
"""The first line behind the last frame that is not indented.

Possessive, because a traceback may be cut: there is one way to read its lines, and no other try."""
CAUSE = r"(?s)\A.*\n[ \t]*(?:\[cause\]|Caused by): *([^\n]+?) *\{?(?:\n|$)"
"""The last cause that Node or Java names."""
NAMES_A_CLASS = (
    r"^\s*([A-Za-z_][\w.]*(?:Error|Exception|Warning|Timeout|Failure|Exit|Interrupt)\b|Error(?=:))"
)
RAISED = r"^([A-Za-z_][\w.]*)(?=:|$)"


def error_line(reason: str) -> str:
    """The line with the error: that of a traceback, else the last named cause, else the first."""
    end = reason[-LOOKED_AT:].replace("\r", "")
    first = re.match(r"\s*([^\r\n]*)", reason[:LOOKED_AT])
    return _raised(reason) or _found(CAUSE, end) or (first[1] if first else "")


def signature(reason: str) -> str:
    """The message with ids, numbers, paths and quotations masked."""
    text = error_line(reason)[:2000]
    for needs, masked in _MASKING:
        if needs in text:
            text = masked(text)
    return text.strip(" ")[:LONGEST]


def error_class(reason: str) -> str | None:
    """The error class that a message names; None when it names none."""
    return _found(NAMES_A_CLASS, error_line(reason)) or _found(RAISED, _raised(reason) or "")


def fingerprint(reason: str) -> str:
    """A short hash of the signature."""
    return _hash(signature(reason))


def _hash(signature: str) -> str:
    return hashlib.sha256(signature.encode(errors="replace")).hexdigest()[:16]


def of_each(reasons: Iterable[str]) -> Iterator[tuple[str | None, str]]:
    """The class and the fingerprint of each of many messages, most of which differ in numbers only.

    Patterns tell 0 (`0x`), 1 to 5 and 6 to 9 apart (`status 404`), no other digits, and these only
    in numbers of up to three. Messages that are equal but for that have the same, unless what is
    found has digits itself.
    """
    known: dict[str, tuple[str | None, str] | None] = {}
    for reason in reasons:
        shape = _LONG_NUMBER.sub(_zeros, reason.translate(_DIGITS))
        if shape not in known:
            name, text = error_class(shape), signature(shape)
            known[shape] = None if _DIGIT.search(f"{name} {text}") else (name, _hash(text))
        yield known[shape] or (error_class(reason), fingerprint(reason))


def _zeros(number: re.Match[str]) -> str:
    return "0" * len(number[0])


_DIGITS = str.maketrans("123456789", "111116666")
_DIGIT, _LONG_NUMBER = re.compile("[0-9]"), re.compile("[0-9]{4,}")


def _raised(reason: str) -> str | None:
    """The error of a traceback of Python's, innermost of those raised from one another.

    None where there is none.
    """
    if TRACEBACK not in reason:
        return None
    text = reason[-LOOKED_AT:].replace("\r", "")
    for layer in (BARS, HANDLED, WRAPPED):
        text = re.sub(layer, "", text)
    return _found(PYTHON, text)


def _found(pattern: str, text: str) -> str | None:
    found = _compiled(pattern).search(text)
    return found[1] or None if found else None


# `re` has a cache of its own, which takes longer than most searches.
_compiled = cache(partial(re.compile, flags=re.ASCII))


def _masking(mask: Mask) -> Callable[[str], str]:
    if not mask.spared:
        return partial(re.compile(mask.pattern, re.ASCII).sub, mask.replacement)
    either = re.compile(f"(?P<spared>{mask.spared})|{mask.pattern}", re.ASCII)
    return partial(either.sub, lambda found: found["spared"] or mask.replacement)


_MASKING = [(mask.needs, _masking(mask)) for mask in MASKS]

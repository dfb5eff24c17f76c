"""Failures that are one failure have one signature, and others have others."""

import base64
import random
import re
import string
import uuid
from collections.abc import Callable, Sequence

import pytest

from tests.pipeline.failure_corpora import CORPORA
from waystation.core.fingerprints import error_class, fingerprint, signature
from waystation.pipeline.silver.lives import known_by
from waystation.pipeline.storage.arrow import pa

MANY = 1_000
HEX = "0123456789abcdef"
LETTERS = string.ascii_lowercase
BASE62 = string.ascii_letters + string.digits
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

dice = random.Random()


def text(alphabet: Sequence[str], length: int) -> str:
    return "".join(dice.choices(alphabet, k=length))


def number(most: int) -> int:
    return dice.randrange(most)


KINDS: dict[str, Callable[[], str]] = {
    "connect ECONNREFUSED <address>": lambda: (
        f"connect ECONNREFUSED 10.{number(256)}.{number(256)}.{number(256)}:{number(65_536)}"
    ),
    "timeout of <n>ms exceeded": lambda: f"timeout of {number(10 ** number(9))}ms exceeded",
    "cannot open <path>: <text>": lambda: f"cannot open /srv/{text(HEX, 4)}/a.csv: '{number(99)}'",
    'violates unique constraint "<n>"': lambda: f'violates unique constraint "u_{number(99)}"',
    "order ord_<id> not found": lambda: f"order ord_{text(HEX, 12)} not found",
    "user usr_<id> has no plan": lambda: f"user usr_{text(BASE62, 10)} has no plan",
    "invalid token <id>": lambda: f"invalid token {text(BASE62, 40)}",
    "invalid secret <id>": lambda: f"invalid secret {text(BASE62 + '-_', 43)}",
    "ulid <id> rejected": lambda: f"ulid {number(8)}{text(CROCKFORD, 25)} rejected",
    "connect ETIMEDOUT <address>": lambda: (
        f"connect ETIMEDOUT [2001:db8::{text(HEX, 1 + number(4))}]:443"
    ),
    "no route to <address> today": lambda: (
        f"no route to {':'.join(text(HEX, 4) for _ in range(8))} today"
    ),
    "Job <id> failed": lambda: f"Job {text(LETTERS, 1)}{number(100)}-{text(LETTERS, 1)} failed",
    "no such thing <id>": lambda: f"no such thing {uuid.UUID(int=dice.getrandbits(128))}",
    "no such request req_<id>": lambda: (
        f"no such request req_{uuid.UUID(int=dice.getrandbits(128))}"
    ),
    "Cast to ObjectId failed for <id>": lambda: f"Cast to ObjectId failed for {text(HEX, 24)}",
    "No such intent: pi_<id>": lambda: f"No such intent: pi_{text(BASE62, 24)}",
    "Invalid API Key sk_live_<id>": lambda: f"Invalid API Key sk_live_{text(BASE62, 24)}",
    "jwt <id> expired": lambda: (
        f"jwt eyJhbGciOiJIUzI1NiJ9.{text(BASE62, 40)}.{text(BASE62, 43)} expired"
    ),
    "cannot decode <id>": lambda: f"cannot decode {base64.b64encode(dice.randbytes(48)).decode()}",
    "worker-<n> lost mail:<n>": lambda: f"worker-{number(100)} lost mail:{number(10_000)}",
    "pod mail-<id> evicted": lambda: (
        f"pod mail-{text('bcdf2456789', 9)}-{text('bcdfghjklmnpqrstvwxz2456789', 5)} evicted"
    ),
    "order ORD-<n> of <n> items": lambda: f"order ORD-{number(10**6):06} of {number(50)} items",
}
"""What must be left of a message, and how such messages are made."""

DIFFERENT = (
    "KeyError: 'email'",
    "TypeError: Cannot read properties of undefined (reading 'x')",
    "TypeError: Cannot read properties of null (reading 'x')",
    "getaddrinfo ENOTFOUND db.internal",
    "utf8 codec cannot decode",
    "sha256 mismatch",
    "md5 mismatch",
    "s3 bucket is missing",
    "HTTP2 stream was reset",
    "OAuth2 token expired",
    "column user_address2 does not exist",
    "column max_connections does not exist",
    "PostgreSQL15 is too old",
    "XMLHttpRequest failed",
    "getUserByIdOrThrow is not a function",
    "getElementFirstChildNode is not a function",
    "java.lang.NullPointerException",
    "us-east-1 is down",
    "ORA-00942 table or view does not exist",
    "Base64 padding",
    "SIGKILL",
)
"""Messages that are each a failure of its own."""


def test_messages_that_differ_in_their_values_have_one_signature() -> None:
    dice.seed(1815)
    messages = [(kind, make()) for kind, make in KINDS.items() for _ in range(MANY)]
    wrong = {text: signature(text) for kind, text in messages if signature(text) != kind}
    assert wrong == {}


def test_messages_that_differ_in_their_words_have_signatures_of_their_own() -> None:
    assert len(set(map(signature, DIFFERENT))) == len(DIFFERENT)


PYTHON = """Traceback (most recent call last):
  File "/app/mail.py", line {line}, in send
    charge(order)
    ~~~~~~^^^^^^^
  File "/app/pay.py", line 7, in charge
    raise {raised}
"""
CHAINED = (
    PYTHON
    + """OSError: disk
\nDuring handling of the above exception, another exception occurred:\n
"""
    + PYTHON
    + "{raised}\n"
)
GROUPED = """  + Exception Group Traceback (most recent call last):
  |   File "/app/mail.py", line {line}, in <module>
  |     main()
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/mail.py", line {line}, in send
    |     raise {raised}
    | {raised}
    +------------------------------------
"""
NODE = """TypeError: fetch failed
    at node:internal/deps/undici/undici:{line}:11
    at async send (/app/mail.js:{line}:3) {{
  [cause]: {raised}
      at connect (node:net:{line}:16)
}}"""
JAVA = """java.lang.RuntimeException: job failed
\tat com.example.Mail.send(Mail.java:{line})
Caused by: {raised}
\tat com.example.Pay.charge(Pay.java:{line})
\t... 12 more
"""
RAISED = {
    "ValueError: no such order 17": ("ValueError: no such order <n>", "ValueError"),
    "KeyError: 'email'": ("KeyError: 'email'", "KeyError"),
    "shop.errors.Refused: card 99 was refused": (
        "shop.errors.Refused: card <n> was refused",
        "shop.errors.Refused",
    ),
}


@pytest.mark.parametrize(
    "page", [PYTHON + "{raised}\n", CHAINED, GROUPED, NODE, JAVA], ids=str.split
)
def test_different_errors_behind_the_same_traceback_are_different_failures(page: str) -> None:
    reasons = [page.format(raised=raised, line=line) for raised in RAISED for line in (1, 230)]
    assert list(map(signature, reasons)) == [said for said, _ in RAISED.values() for _ in range(2)]


def test_the_kind_of_a_failure_is_the_error_that_was_raised_last() -> None:
    reasons = {
        **{
            (PYTHON + "{raised}").format(raised=raised, line=1): RAISED[raised][1]
            for raised in RAISED
        },
        NODE.format(raised="Error: getaddrinfo ENOTFOUND", line=1): "Error",
        "TimeoutError: no answer": "TimeoutError",
        "a shop.Refused was raised": None,
        "": None,
    }
    assert {reason: error_class(reason) for reason in reasons} == reasons


def test_a_traceback_that_was_cut_short_and_odd_texts_have_a_signature() -> None:
    cut = PYTHON.format(raised="ValueError", line=3)[:-20]
    assert signature(cut) == "Traceback (most recent call last):"
    assert list(map(signature, ["\n\n  boom 7\n at x", "", "   "])) == ["boom <n>", "", ""]
    assert fingerprint("half an emoji: \ud83d")


@pytest.mark.timeout(30)
def test_a_traceback_of_any_length_that_was_cut_is_read_at_once() -> None:
    head = "Traceback (most recent call last):\n"
    frames = "".join(f'  File "a.py", line {at}, in call\n    call(it)\n' for at in range(100))
    for end in ("", "    cal", "+ more", "\n" * 8000, " " * 4000):
        assert signature(head + frames + end) == "Traceback (most recent call last):"


def odd_texts(many: int) -> list[str]:
    """Texts of every class of characters, as long as the longest that is looked at."""
    dice.seed(29)
    parts = ("a", "aB", "Ab1", "_", "-a", "/a", ":", "a_", "A1-", "0:", "'", "<", "[:", "aaaB1_-")
    parts += ('"', "\\", " ", "\n", "\t", "{", "(", "%", "@", "é", "\u4e2d", "\U0001f600", "\x00")
    return [
        text(dice.choices(parts, k=1 + number(4)), 1 + number(16_000))[:16_000]
        + dice.choice(("", "!", " 1"))
        for _ in range(many)
    ] + [part * (16_000 // len(part)) + end for part in parts for end in ("", "!", " 1")]


NUMBERED = (
    *("status 404", "status code 4040", "status 40.1", "HTTP/1.1 502 Bad Gateway", "Exit code 137"),
    *("503, message='busy'", "504 Client Error", "[Errno 13] at 0x1f", "at 01x", "gpt-4o, gpt-4.1"),
    *("Http2Error: 12", "10.0.0.1:5432 refused", "2026-01-05 10:00:59 late by 1500 ms", "line2 3"),
)
"""Messages that some numbers make a failure of its own."""


def in_other_numbers(text: str, many: int) -> list[str]:
    """The text with other digits, many of them alike."""
    return [re.sub("[0-9]", lambda _: dice.choice("0159"), text) for _ in range(many)]


def test_the_history_gives_every_text_the_fingerprint_that_the_console_gives_it() -> None:
    corpora = [each.text for make in CORPORA.values() for each in make(dice)[:20]]
    plain = [*corpora, *DIFFERENT, *NUMBERED, ""]
    numbered = [each for text in plain for each in in_other_numbers(text, 5)]
    reasons = [*odd_texts(200), *plain, *numbered]
    found = known_by(pa.array([*reasons, None], pa.string()))
    wanted = [(error_class(each), fingerprint(each)) for each in reasons]
    rows = zip(*(each.to_pylist() for each in found), strict=True)
    assert list(rows) == [*wanted, (None, None)]

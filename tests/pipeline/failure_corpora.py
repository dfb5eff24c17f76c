"""Corpora of error messages whose causes are known, made with a seed."""

import base64
import random
import string
import uuid
from collections.abc import Callable
from typing import NamedTuple

HEX = "0123456789abcdef"
LETTERS = string.ascii_letters
BASE36 = string.ascii_lowercase + string.digits
BASE62 = LETTERS + string.digits
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
MANY = 1_500
"""Messages of a corpus."""

CAUSES = (
    "order {v} not found",
    "no such customer: {v}",
    "customer {v} has no payment method",
    "invoice {v} is already paid",
    "duplicate key value violates unique constraint on {v}",
    "could not serialize access to {v} due to concurrent update",
    "deadlock detected while waiting for {v}",
    "relation {v} does not exist",
    "lock on {v} was lost",
    "timeout while reading {v}",
    "timeout while writing {v}",
    "connection to {v} was reset by its peer",
    "connection to {v} was refused",
    "could not resolve {v}",
    "certificate of {v} has expired",
    "certificate of {v} is self signed",
    "permission denied: {v}",
    "{v} is not a directory",
    "{v} is a directory",
    "{v} does not exist",
    "{v} is larger than allowed",
    "{v} was changed in the meantime",
    "cannot parse {v} as JSON",
    "cannot parse {v} as CSV",
    "unexpected end of {v}",
    "checksum of {v} does not match",
    "unsupported version in {v}",
    "rate limit reached for {v}, try again later",
    "quota of {v} is used up",
    "access to {v} denied by policy",
    "signature of {v} is invalid",
    "{v} has been revoked",
    "session {v} expired",
    "webhook {v} answered with an error",
    "mail to {v} bounced",
    "template for {v} is missing",
    "image {v} cannot be decoded",
    "video {v} has no audio track",
    "worker lost contact with {v}",
    "no handler registered for {v}",
    "circuit breaker open for {v}",
    "payload of {v} is not encrypted",
    "upload {v} was cancelled by the user",
    "refund {v} exceeds the charge",
    "stock of {v} is negative",
    "shipment {v} cannot be booked twice",
    "address of {v} is incomplete",
    "currency of {v} is not supported",
)
"""What went wrong, with a place for the value that differs from message to message."""


class Message(NamedTuple):
    """An error message, and the number of its cause."""

    cause: int
    text: str


Make = Callable[[random.Random], str]


def text(dice: random.Random, alphabet: str, length: int) -> str:
    """Random characters."""
    return "".join(dice.choices(alphabet, k=length))


def _uuid(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def _ulid(dice: random.Random) -> str:
    return "01" + text(dice, CROCKFORD, 24)


IDS: tuple[Make, ...] = (
    lambda dice: str(dice.randrange(10 ** dice.randint(1, 9))),
    lambda dice: f"#{dice.randrange(100_000)}",
    _uuid,
    lambda dice: _uuid(dice).upper(),
    lambda dice: _uuid(dice).replace("-", ""),
    lambda dice: text(dice, HEX, 24),
    lambda dice: text(dice, HEX, 12),
    lambda dice: f"ord_{text(dice, BASE62, 14)}",
    lambda dice: f"cus_{text(dice, HEX, 12)}",
    lambda dice: f"ORD-{dice.randrange(10**6):06}",
    lambda dice: f"INV-2026-{dice.randrange(10**5):05}",
    lambda dice: text(dice, BASE62 + "_-", 21),
    lambda dice: "c" + text(dice, BASE36, 24),
    lambda dice: text(dice, BASE62, 27),
    lambda dice: str(dice.randrange(10**17, 10**18)),
    lambda dice: f"tenant-{dice.randrange(500)}/order-{dice.randrange(10**6)}",
    lambda dice: f"user:{dice.randrange(10**6)}:cart",
    lambda dice: f"id={dice.randrange(10**6)}",
    lambda dice: f'"{text(dice, BASE36, 10)}"',
    lambda dice: f"'{text(dice, LETTERS, 8)}'",
)


def _folders(dice: random.Random) -> list[str]:
    names = ("srv", "data", "in", "acme", "2026-03", "03", "a1b2", "Reports", "tenant_7", "tmp")
    return dice.choices(names, k=dice.randint(2, 5))


def _file(dice: random.Random) -> str:
    stem = dice.choice(
        (
            lambda: f"export-{dice.randrange(10**5)}",
            lambda: text(dice, HEX, 8),
            lambda: f"IMG_{dice.randrange(10_000):04}",
            lambda: f"tmp{text(dice, BASE36, 8)}",
            lambda: dice.choice(("orders", "customers", "may", "readme")),
        )
    )
    return stem() + dice.choice((".csv", ".json", ".jpg", ".tar.gz", ""))


PATHS: tuple[Make, ...] = (
    lambda dice: "/" + "/".join((*_folders(dice), _file(dice))),
    lambda dice: "C:\\" + "\\".join((*_folders(dice), _file(dice))),
    lambda dice: "./" + "/".join((*_folders(dice), _file(dice))),
    lambda dice: "../" + "/".join((*_folders(dice), _file(dice))),
    lambda dice: "~/" + "/".join((*_folders(dice), _file(dice))),
    lambda dice: "uploads/" + "/".join((*_folders(dice), _file(dice))),
    lambda dice: "s3://bucket/" + "/".join((*_folders(dice), _file(dice))),
    lambda dice: "file:///" + "/".join((*_folders(dice), _file(dice))),
    lambda dice: "'/" + "/".join((*_folders(dice), _file(dice))) + "'",
    lambda dice: "\\\\nas\\share\\" + "\\".join((*_folders(dice), _file(dice))),
    lambda dice: f"/tmp/{_file(dice)}",
)

ULIDS: tuple[Make, ...] = (
    _ulid,
    lambda dice: _ulid(dice).lower(),
    lambda dice: f"job_{_ulid(dice)}",
    lambda dice: f"job_{_ulid(dice).lower()}",
    lambda dice: f"job-{_ulid(dice)}",
    lambda dice: f"({_ulid(dice)})",
    lambda dice: f"id={_ulid(dice)}",
    lambda dice: f"'{_ulid(dice)}'",
    lambda dice: f"{_ulid(dice)}:{_ulid(dice)}",
)


def _base64(dice: random.Random) -> str:
    return base64.b64encode(dice.randbytes(dice.randint(20, 60))).decode()


def _url_safe(dice: random.Random) -> str:
    return base64.urlsafe_b64encode(dice.randbytes(32)).decode().rstrip("=")


TOKENS: tuple[Make, ...] = (
    lambda dice: (
        f"eyJhbGciOiJIUzI1NiJ9.{text(dice, BASE62 + '_-', 60)}.{text(dice, BASE62 + '_-', 43)}"
    ),
    lambda dice: f"sk_live_{text(dice, BASE62, 24)}",
    lambda dice: f"ghp_{text(dice, BASE62, 36)}",
    lambda dice: f"AKIA{text(dice, string.ascii_uppercase + '234567', 16)}",
    lambda dice: f"xoxb-{dice.randrange(10**12)}-{text(dice, BASE62, 24)}",
    lambda dice: f"AIza{text(dice, BASE62 + '_-', 35)}",
    lambda dice: text(dice, HEX, 64),
    lambda dice: text(dice, BASE62, 40),
    lambda dice: f"Bearer {text(dice, BASE62, 40)}",
    _base64,
    _url_safe,
    lambda dice: f"token={_url_safe(dice)}",
    lambda dice: f"SG.{text(dice, BASE62 + '_-', 22)}.{text(dice, BASE62 + '_-', 43)}",
)


def _v6(dice: random.Random) -> str:
    def part() -> str:
        return f"{dice.randrange(65_536):x}"

    return dice.choice(
        (
            lambda: ":".join(f"{dice.randrange(65_536):04x}" for _ in range(8)),
            lambda: ":".join(part() for _ in range(8)),
            lambda: f"2001:db8::{part()}",
            lambda: f"2001:db8:{part()}::{part()}:{part()}",
            lambda: f"fe80::{part()}:{part()}:{part()}:{part()}",
            lambda: "::1",
            lambda: f"::ffff:10.{dice.randrange(256)}.0.{dice.randrange(256)}",
        )
    )()


ADDRESSES: tuple[Make, ...] = (
    _v6,
    lambda dice: f"[{_v6(dice)}]:{dice.randrange(1, 65_536)}",
    lambda dice: f"[{_v6(dice)}]",
    lambda dice: f"{_v6(dice)}:{dice.randrange(1_024, 65_536)}",
    lambda dice: f"fe80::{dice.randrange(65_536):x}%eth{dice.randrange(4)}",
    lambda dice: f"2001:db8:{dice.randrange(65_536):x}::/{dice.choice((32, 48, 64))}",
    lambda dice: f"http://[{_v6(dice)}]:{dice.randrange(1, 65_536)}/v1",
    lambda dice: f"tcp [{_v6(dice)}]:{dice.randrange(1, 65_536)}",
    lambda dice: f"({_v6(dice)})",
)

PYTHON_ERRORS = ("ValueError", "shop.errors.Refused", "KeyError", "OSError", "RuntimeError")
NODE_ERRORS = ("Error", "TypeError", "RangeError", "RefusedError", "AxiosError")
CAUSED = "The above exception was the direct cause of the following exception:"
DURING = "During handling of the above exception, another exception occurred:"


def _frames(dice: random.Random) -> str:
    lines: list[str] = []
    for _ in range(dice.randint(1, 6)):
        where = f"/app/{dice.choice(('mail', 'pay', 'shop'))}.py"
        lines.append(f'  File "{where}", line {dice.randrange(1, 900)}, in {text(dice, HEX, 4)}')
        lines.append(f"    {dice.choice(('charge(order)', 'return await send(x)', 'raise'))}")
        if dice.random() < 0.3:
            lines.append("    ~~~~~~^^^^^^^")
    return "\n".join(lines)


def _traceback(dice: random.Random, error: str) -> str:
    return f"Traceback (most recent call last):\n{_frames(dice)}\n{error}\n"


def python(dice: random.Random, error: str) -> str:
    """A traceback as Python prints it, whose innermost error is this one."""
    wrapped = f"JobFailed: attempt {dice.randrange(9)} of job {dice.randrange(10**6)} failed"
    other = f"OSError: [Errno 5] disk {dice.randrange(9)}"
    return dice.choice(
        (
            lambda: _traceback(dice, error),
            lambda: _traceback(dice, f"{error}\nit was tried {dice.randrange(9)} times"),
            lambda: f"{_traceback(dice, error)}\n{CAUSED}\n\n{_traceback(dice, wrapped)}",
            lambda: f"{_traceback(dice, other)}\n{DURING}\n\n{_traceback(dice, error)}",
            lambda: _group(dice, error),
        )
    )()


def _group(dice: random.Random, error: str) -> str:
    inner = _traceback(dice, error).rstrip("\n").replace("\n", "\n    | ")
    return (
        "  + Exception Group Traceback (most recent call last):\n"
        f'  |   File "/app/main.py", line {dice.randrange(99)}, in <module>\n'
        "  |     main()\n"
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        f"    | {inner}\n"
        "    +------------------------------------\n"
    )


def _places(dice: random.Random, indent: str = "    ") -> str:
    calls = (
        "async send (/app/dist/mail.js",
        "Job.run (/app/node_modules/bullmq/job.js",
        "(node:net",
    )
    return "\n".join(
        f"{indent}at {dice.choice(calls)}:{dice.randrange(900)}:{dice.randrange(80)})"
        for _ in range(dice.randint(1, 6))
    )


def node(dice: random.Random, error: str) -> str:
    """A stack as Node prints it, whose innermost error is this one."""
    outer = f"Error: job {dice.randrange(10**6)} failed"
    fields = f"{{\n  code: 'E{dice.randrange(99)}',\n  errno: -{dice.randrange(200)}\n}}"
    return dice.choice(
        (
            lambda: f"{error}\n{_places(dice)}",
            lambda: f"{error}\n{_places(dice)} {fields}",
            lambda: (
                f"{outer}\n{_places(dice)} {{\n  [cause]: {error}\n{_places(dice, '      ')}\n}}"
            ),
            lambda: (
                f"{outer}\n{_places(dice)} {{\n  [cause]: TypeError: fetch failed\n"
                f"{_places(dice, '      ')} {{\n    [cause]: {error}\n"
                f"{_places(dice, '        ')} {fields}\n  }}\n}}"
            ),
        )
    )()


def _plain(makes: tuple[Make, ...]) -> Callable[[random.Random], list[Message]]:
    def corpus(dice: random.Random) -> list[Message]:
        return [
            Message(cause, CAUSES[cause].format(v=makes[cause % len(makes)](dice)))
            for cause in dice.choices(range(len(CAUSES)), _weights(), k=MANY)
        ]

    return corpus


def _traced(
    errors: tuple[str, ...], trace: Callable[[random.Random, str], str]
) -> Callable[[random.Random], list[Message]]:
    def corpus(dice: random.Random) -> list[Message]:
        found: list[Message] = []
        for cause in dice.choices(range(len(CAUSES)), _weights(), k=MANY):
            said = CAUSES[cause].format(v=IDS[cause % len(IDS)](dice))
            found.append(Message(cause, trace(dice, f"{errors[cause % len(errors)]}: {said}")))
        return found

    return corpus


NAMED = (
    "KeyError: 'price'",
    "KeyError: 'customer_id'",
    "TypeError: Cannot read properties of undefined (reading 'email')",
    "TypeError: Cannot read properties of undefined (reading 'total')",
    'java.lang.NullPointerException: Cannot invoke "User.getId()" because "user" is null',
    'java.lang.NullPointerException: Cannot invoke "Order.total()" because "order" is null',
    'duplicate key value violates unique constraint "orders_pkey"',
    'duplicate key value violates unique constraint "users_email_key"',
    "401, message='Unauthorized', url='https://api.example/v1/{n}'",
    "503, message='Service Unavailable', url='https://api.example/v1/{n}'",
    "404 Client Error: Not Found for url: https://api.example/users/{n}",
    "500 Server Error: Internal Server Error for url: https://api.example/users/{n}",
    "Error code: 400 - {{'error': {{'message': 'Invalid value {n}', 'code': None}}}}",
    "Error code: 500 - {{'error': {{'message': 'Request {id}', 'code': None}}}}",
    "Request failed with status code 404",
    "Request failed with status code 429",
    "AttributeError: 'NoneType' object has no attribute 'get'",
    "AttributeError: 'NoneType' object has no attribute 'items'",
    "AttributeError: 'Order' object has no attribute 'get'",
    "Command failed: Exit code 137",
    "Command failed: Exit code 1",
    "PermissionError: [Errno 13] Permission denied: '/srv/{n}/{id}'",
    "OSError: [Errno 28] No space left on device: '/srv/{n}/{id}'",
    "ModuleNotFoundError: No module named 'shop.mail'",
    "ModuleNotFoundError: No module named 'shop.pay'",
    "The model gpt-{model} is overloaded, request {id}",
    "user '{word}' not found in tenant '{word}'",
    "Duplicate entry '{word}' for key 'users.email'",
    "Duplicate entry '{word}' for key 'orders.PRIMARY'",
    'column "total" of relation "orders" does not exist',
    'column "price" of relation "orders" does not exist',
    "TimeoutError: no answer after {n} ms from 10.0.{n}.7",
    "ReferenceError: orders is not defined",
    "missing 1 required positional argument: 'email'",
    "missing 1 required positional argument: 'name'",
    "lock of job {n} was lost",
    "job {id} stalled more than {n} times",
    "upstream answered HTTP/1.1 502 after {n} ms",
    "upstream answered HTTP/1.1 504 after {n} ms",
    "rate limit of tenant {id} is used up",
)
"""Messages in which names of a program and numbers of a protocol are kinds, and values are not."""


def _named(dice: random.Random) -> list[Message]:
    def said(cause: int) -> str:
        return NAMED[cause].format(
            n=dice.randrange(100),
            id=text(dice, HEX, 12),
            model=dice.choice(("4o", "4.1", "5", "3.5")),
            word=text(dice, string.ascii_lowercase, dice.randint(3, 9)),
        )

    return [Message(cause, said(cause)) for cause in dice.choices(range(len(NAMED)), k=MANY)]


def _weights() -> list[float]:
    """Some causes occur often, most seldom."""
    return [1 / (1 + cause) ** 0.5 for cause in range(len(CAUSES))]


CORPORA: dict[str, Callable[[random.Random], list[Message]]] = {
    "ids": _plain(IDS),
    "paths": _plain(PATHS),
    "ULIDs": _plain(ULIDS),
    "tokens": _plain(TOKENS),
    "IPv6": _plain(ADDRESSES),
    "Python tracebacks": _traced(PYTHON_ERRORS, python),
    "Node stacks": _traced(NODE_ERRORS, node),
    "names": _named,
}

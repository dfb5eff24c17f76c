"""Spellings of paths, and what servers of several kinds make of them."""

import random
import re
from collections.abc import Callable
from urllib.parse import unquote, unquote_to_bytes

WORD = "checkout"


def words(text: str) -> list[str]:
    return text.split()


CLIMB_IN = words(r"""
    //checkout /%63heckout /checkout;x=1 /CHECKOUT /a/../checkout /./checkout /%2563heckout
    /%252563heckout /checkout/ /\checkout /checkout/x.js /;/checkout /.;/checkout
    /foo/..;/checkout /%5ccheckout /foo\..\checkout /%255ccheckout /;/%63heckout /a;b/../checkout
    /foo/..%3b/checkout /;x=%2e/Checkout /%2fcheckout /a%2f..%2fcheckout /wait/../checkout
    /wait/..;/checkout /wait/..%2fcheckout /api/v1/queues/%2e%2e/%2e%2e/%2e%2e/checkout
    /%c0%ae/checkout /%c1%a3heckout /%e0%81%a3heckout /%f0%80%81%a3heckout
    /%e0%80%ae%e0%80%ae/checkout /chec%e2%84%aaout /chec%E2%84%AAOUT /chec%25e2%2584%25aaout
""")
NO_UTF_8 = words(r"""
    /%63heckout/%ff /%63heckout%ff /checkou%74/pay%80 /%2563heckout/%ff /%ff/../checkout
""")
CLIMB_OUT = words(r"""
    /checkout/../x /checkout/pay/../../x /checkout/%2e%2e/x /checkout/..;/x /checkout/..;a=b/x
    /checkout/pay/..;/..;/x /checkout/..%3b/x /checkout/%252e%252e/x /checkout/%25%32%65%2e/x
    /checkout/..%2fx /checkout%2f..%2fx /checkout/a%2f..%2f..%2fx /checkout/..%5cx
    /checkout/%2e%2e%5cx /checkout/..%23/x /checkout/..%3f/x /checkout/.%0d./x /checkout/.%09./x
    /%63heckout/../x /checkout/.. /checkout/../wait/x /checkout/%c0%ae%c0%ae/x /x%3f/../checkout
    /%09checkout /che%0dckout /checkout%00.css /checkout/% /checkout/%2 /checkout/%zz/../x
    /%u0063heckout /checkout#/../x
""")
LISTED = (*CLIMB_IN, *NO_UTF_8, *CLIMB_OUT)
_PARTS = words(r"""
    checkout Checkout %63heckout %2563heckout c%68eckout a pay x.css wait .. . %2e%2e .%2e %2e
    %252e%252e ..; ..;a=b ; ;a ..%3b %25%32%65. .%09. .%0d. %ff %c0%ae%c0%ae %80 ..%00 ..%23 ..%3f
    %20
""")
_JOINTS = ("/", "/", "/", "/", "//", "/./", "%2f", "%2F", "\\", "%5c", "%252f")


def spellings(count: int = 200, seed: int = 7) -> list[str]:
    """The listed ones, and as many others as it takes, each of them with the word in it."""
    bits = random.Random(seed)
    found = list(LISTED)
    while len(found) < count:
        parts = [bits.choice(_PARTS) for _ in range(bits.randint(2, 6))]
        path = "/" + "".join(part + bits.choice(_JOINTS) for part in parts[:-1]) + parts[-1]
        if WORD in (one := unquote(unquote(path)).lower()) or WORD in one.replace("\r", ""):
            found.append(path)
    return found


def _resolved(path: str) -> str:
    kept = list[str]()
    for part in path.split("/")[1:]:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    return "/" + "/".join(kept)


def _tomcat(path: str) -> str:
    return _resolved(re.sub("/+", "/", unquote(re.sub(r";[^/]*", "", path))))


def _iis(path: str) -> str:
    read = re.sub(r"%u00(..)", r"%\1", path)
    return _resolved(re.sub("/+", "/", unquote(unquote(read)).replace("\\", "/")))


def _old_java(path: str) -> str:
    raw = unquote_to_bytes(path)
    plain = re.sub(
        rb"(?:[\xc0\xc1]|\xe0[\x80\x81]|\xf0\x80[\x80\x81])[\x80-\xbf]",
        lambda m: bytes([(m[0][-2] & 1) << 6 | m[0][-1] & 63]),
        raw,
    )
    return _resolved(plain.decode("latin-1"))


def _browser(path: str) -> str:
    read = re.sub(r"[\t\r\n]", "", unquote(path)).replace("\\", "/")
    return _resolved(re.split("[?#]", read)[0])


def _any_case(path: str) -> str:
    """As routes with `(?i)` read it, to which K and the sign of the kelvin are the same letter."""
    return re.sub(f"(?i){WORD}", WORD, unquote(path))


SITES: dict[str, Callable[[str], str]] = {
    "as it came": lambda path: path,
    "decodes once": unquote,
    "decodes twice": lambda path: unquote(unquote(path)),
    "resolves, then decodes": lambda path: unquote(_resolved(path)),
    "decodes, then resolves": lambda path: _resolved(unquote(path)),
    "merges slashes": lambda path: re.sub("/+", "/", unquote(path)),
    "Tomcat": _tomcat,
    "IIS": _iis,
    "old Java": _old_java,
    "parses it again": _browser,
    "ignores case": _any_case,
    "decodes twice, ignores case": lambda path: _any_case(unquote(path)),
}


def taken_for(seen: str, word: str = WORD) -> list[str]:
    """The kinds of sites that answer a path as the part below this word."""
    path = seen.partition("?")[0]
    return [name for name, read in SITES.items() if read(path).lower().startswith(f"/{word}")]

"""Just enough of Lua's grammar to catch a slip before the server does."""

import re
from collections.abc import Iterator

# The globals that every server offers to a script, in both versions of the language.
OFFERED = frozenset(
    re.findall(
        r"\w+",
        "redis ARGV cjson cmsgpack math string table assert error ipairs next pairs pcall select "
        "setmetatable tonumber tostring type unpack",
    )
)
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "and break do else elseif end false for function if in local nil not or repeat return "
        "then true until while",
    )
)

# Commands that change nothing.
_READS = frozenset(
    re.findall(
        r"\w+",
        "EXISTS GET HEXISTS HGET HGETALL HKEYS HLEN HMGET HSCAN HVALS LINDEX LLEN LPOS LRANGE "
        "MEMORY MGET PTTL SCARD SISMEMBER SMEMBERS SMISMEMBER SSCAN STRLEN TIME TTL TYPE XINFO "
        "XLEN XRANGE XREVRANGE ZCARD ZCOUNT ZINTER ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYSCORE "
        "ZRANK ZREVRANGE ZREVRANGEBYSCORE ZSCAN ZSCORE",
    )
)

# The command of each call, or nothing where it is not written out.
_COMMAND = re.compile(r"redis\.p?call\((?:'(\w+)'[,)])?")

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--\[\[.*?\]\]|--[^\n]*)
    | (?P<string>\[\[.*?\]\]|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
    | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<mark>\.\.\.|\.\.|[=~<>]=|[^\w\s])
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[str]:
    """The words of a script, without space and comments."""
    found = _TOKEN.finditer(text)
    return [token.group() for token in found if token.lastgroup not in ("space", "comment")]


def undeclared(text: str) -> set[str]:
    """Names that are used but neither declared anywhere in the text nor offered by the server."""
    words = ["", *tokens(text), ""]
    return set(_used(words)) - set(_declared(words)) - OFFERED - KEYWORDS


def lower_case_commands(text: str) -> set[str]:
    """Commands not written in upper case."""
    words = tokens(text)
    calls = zip(words, words[1:], words[2:], words[3:], words[4:], strict=False)
    return {
        command
        for owner, dot, call, _, command in calls
        if (owner, dot) == ("redis", ".") and call in ("call", "pcall")
        if command[0] in "'\"" and command != command.upper()
    }


def only_reads(text: str) -> bool:
    """Whether every command is written out and changes nothing."""
    # Asked of every script on import, so without taking the text apart.
    return _READS.issuperset(_COMMAND.findall(text))


def only_function(text: str) -> str | None:
    """The name of the one local function that the text is; None when it is anything else."""
    words = tokens(text)
    if words[:2] != ["local", "function"]:
        return None
    depth = 0
    for index, word in enumerate(words):
        depth += (word in ("function", "if", "do", "repeat")) - (word in ("end", "until"))
        if word == "end" and depth == 0:
            return words[2] if index == len(words) - 1 else None
    return None


def _used(words: list[str]) -> Iterator[str]:
    braces: list[str] = []
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        if word in ("{", "("):
            braces.append(word)
        elif word in ("}", ")") and braces:
            braces.pop()
        if not re.match(r"[A-Za-z_]", word) or before in (".", ":"):
            continue
        inside_table = bool(braces) and braces[-1] == "{"
        if not (inside_table and after == "=" and before in ("{", ",", ";")):
            yield word


def _declared(words: list[str]) -> Iterator[str]:
    for index, word in enumerate(words):
        if word == "local" and words[index + 1] == "function":
            yield words[index + 2]
        elif word in ("local", "for"):
            yield from _names(words, index + 1)
        elif word == "function":
            yield from _names(words, words.index("(", index) + 1)


def _names(words: list[str], index: int) -> Iterator[str]:
    while re.match(r"[A-Za-z_]|\.\.\.", words[index]):
        yield words[index]
        if words[index + 1] != ",":
            return
        index += 2

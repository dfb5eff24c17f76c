"""The text of a Lua script: its header, the helpers it uses, and the whole as the server gets it.

    --- File a finished job away.
    --- keys  active completed job
    --- args  id result:bytes keep:int=100 others... -> bool
    --- uses  release
    --- lazy  release_parent

The slots become locals of the same names. A last argument with dots stands for any number of
values, and its local is the place of the first: `for i = others, #ARGV do local other = ARGV[i]`.
A last key with dots does the same in KEYS, for keys whose number only the caller knows.

Types, defaults and what the reply is read with are for the script's Python function, which
`make docs` writes from the header (`tools/scripts.py`). An argument without a type is text.

Helpers take many keys in one table. A script that calls such helpers names the table behind `as`:
it has all of the script's keys by their names, and the arguments named there (`as queue base`).

A script lies in `lua/` or in a folder of its family there (`lua/steps/`), under a name of its own
in the whole package. Helpers are local functions in `lua/shared`, a family to a file
(`parents.lua`, `events.lua`), each under a header of its own; a script gets those that it names and
no others. Each call makes every helper anew, half a microsecond apiece, so each of those behind
`lazy` is made when first asked for, with what it uses, as `lazy().release_parent(…)`; a helper may
name such helpers, too.

A script that writes starts by asking each of its keys for its size: a key of another type than the
keyspace declares stops it there, with nothing moved. A script that rather looks itself, because it
runs often or only deletes the key, names that key behind `unchecked`, or `all` of them.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

SHARED = "waystation.core.store"

_SIZES = {
    "string": "STRLEN",
    "list": "LLEN",
    "set": "SCARD",
    "zset": "ZCARD",
    "hash": "HLEN",
    "stream": "XLEN",
}
"""The command that is quick for a key of this type or without a value, and fails for others."""


class Header(NamedTuple):
    """What a script says about itself."""

    summary: str
    keys: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    rest: str | None = None
    """The argument that takes any number of values; it stands behind the others."""
    uses: tuple[str, ...] = ()
    rest_keys: str | None = None
    """The key that stands for any number of keys, behind the others."""
    lazy: tuple[str, ...] = ()
    """Helpers that are only made when the script asks for them by `lazy()`."""
    table: tuple[str, ...] = ()
    """The name of a table of all keys, and the arguments that it has besides."""
    unchecked: tuple[str, ...] = ()
    """Keys whose type the script looks after itself."""
    types: Mapping[str, str] = {}
    """What is written behind an argument's name: `:int`, `:str|int=`."""
    reply: str = ""


class Source:
    """One script, ready for the server or for a client in another language."""

    def __init__(self, package: str, name: str, types: Mapping[str, str] | None = None) -> None:
        self.package = package
        self.name = name
        self._types = types or {}
        self._place, self._body = _script(package, name)
        self.header = parse_header(self._body, where=self.where)
        helpers = _helpers(package, self.header.uses, where=self.where)
        names = _lazy_names(package, self.header, where=self.where)
        texts = _helpers(package, names, where=self.where)
        lazy = {name: text for name, text in texts.items() if name in names or name not in helpers}
        self._made = [_NEAR, *_lazily(names, lazy, helpers), _prelude(self.header)]
        self._helpers = {**helpers, **lazy}

    @property
    def where(self) -> str:
        """The file, as a person would name it."""
        return f"{self.package.replace('.', '/')}/lua/{self._place}.lua"

    @cached_property
    def text(self) -> str:
        """The whole as the server gets it."""
        return self._preamble + self._body

    @cached_property
    def _preamble(self) -> str:
        # Reading every word of a script is for those who send it, not for every import.
        reads = only_reads("\n".join([*self._made, self._body]))
        return "\n".join([*self._made, *([] if reads else _checks(self.header, self._types)), ""])

    @cached_property
    def sha(self) -> str:
        """The name under which the server keeps it."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def check(self) -> None:
        """Catch a slip before the server does; for tests, because it takes tens of milliseconds."""
        for name, text in self._helpers.items():
            if only_function(text) != name:
                raise ValueError(f"helper {name} must be one `local function {name}(...)`")
        if unknown := undeclared(self.text) - {"KEYS"}:
            names = ", ".join(sorted(unknown))
            raise ValueError(f"{self.where} uses names nobody declares: {names}")
        if small := lower_case_commands(self.text):
            names = ", ".join(sorted(small))
            raise ValueError(f"{self.where} must write commands in upper case: {names}")

    def line(self, reported: int) -> int | None:
        """The line of the file that the server means; None when it lies in a helper."""
        starts = self._preamble.count("\n")
        return reported - starts if reported > starts else None


_SLOTS = ("keys", "args", "as", "uses", "lazy", "unchecked")
_ARGUMENT = re.compile(r"(\w+)((?::[\w|]+)?(?:=\w*)?)(\.\.\.)?")


def parse_header(text: str, *, where: str) -> Header:
    """Read the lines at the top that start with three dashes."""
    lines = text.splitlines()
    head: list[str] = []
    while len(head) < len(lines) and lines[len(head)].startswith("---"):
        head.append(lines[len(head)].removeprefix("---").strip())
    if not head or not head[0]:
        raise ValueError(f"{where} must start with a sentence: `--- What it does.`")
    slots: dict[str, list[str]] = {name: [] for name in _SLOTS}
    summary = head[:1]
    for line in head[1:]:
        kind, _, names = line.partition(" ")
        if kind in slots:
            slots[kind] += names.split()
        else:
            summary.append(line)
    return _header(" ".join(summary).strip(), slots, where)


def _header(summary: str, slots: dict[str, list[str]], where: str) -> Header:
    keys, rest_keys = _without_rest(tuple(slots["keys"]))
    taken, _, reply = " ".join(slots["args"]).partition("->")
    args, rest = _without_rest(tuple(_ARGUMENT.sub(r"\1\3", each) for each in taken.split()))
    types = {name: kind for name, kind, _ in _ARGUMENT.findall(taken)}
    uses, lazy = tuple(slots["uses"]), tuple(slots["lazy"])
    names = [*keys, *args, *slots["as"][:1], *filter(None, (rest_keys, rest))]
    for name in [*names, *uses, *lazy]:
        if not name.isidentifier() or name in KEYWORDS or name in OFFERED:
            raise ValueError(f"{where}: {name!r} cannot be the name of a slot")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{where} names {', '.join(sorted(twice))} twice")
    unchecked = keys if slots["unchecked"] == ["all"] else tuple(slots["unchecked"])
    if unknown := [name for name in unchecked if name not in keys]:
        raise ValueError(f"{where} leaves {', '.join(unknown)} unchecked, but has no such keys")
    table = tuple(slots["as"])
    if unknown := [name for name in table[1:] if name not in args]:
        raise ValueError(f"{where} has no arguments {', '.join(unknown)} for {table[0]}")
    return Header(
        summary, keys, args, rest, uses, rest_keys, lazy, table, unchecked, types, reply.strip()
    )


def _without_rest(names: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    if names and names[-1].endswith("..."):
        return names[:-1], names[-1].removesuffix("...")
    return names, None


# A local is found sooner than a global, and a script asks for these in nearly every line.
_NEAR = "local redis, ARGV = redis, ARGV"


def _prelude(header: Header) -> str:
    lines = [f"local {name} = KEYS[{place}]" for place, name in enumerate(header.keys, 1)]
    lines += [f"local {name} = ARGV[{place}]" for place, name in enumerate(header.args, 1)]
    if header.rest_keys:
        lines.append(f"local {header.rest_keys} = {len(header.keys) + 1}")
    if header.rest:
        lines.append(f"local {header.rest} = {len(header.args) + 1}")
    if header.table:
        table, *more = header.table
        lines.append(
            f"local {table} = {{ {', '.join(f'{n} = {n}' for n in (*header.keys, *more))} }}"
        )
    return "\n".join(lines)


def _checks(header: Header, types: Mapping[str, str]) -> list[str]:
    """A question to each key that only its own type answers."""
    checked = [name for name in header.keys if name in types and name not in header.unchecked]
    return [f"redis.call('{_SIZES[types[name]]}', {name})" for name in checked]


def _helpers(package: str, names: tuple[str, ...], *, where: str) -> dict[str, str]:
    """The helpers' texts by name, every one behind those it uses."""
    texts: dict[str, str] = {}

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"{where}: helpers use each other: {' → '.join((*path, name))}")
        if name in texts:
            return
        text = _helper(package, name, where).rstrip("\n")
        for needed in _header_of(name, text).uses:
            add(needed, (*path, name))
        texts[name] = text

    for name in names:
        add(name, ())
    return texts


def _lazy_names(package: str, header: Header, *, where: str) -> tuple[str, ...]:
    """The helpers that a script, or a helper that it gets, only wants made when asked for."""
    names = dict.fromkeys(header.lazy)
    while True:
        texts = _helpers(package, (*header.uses, *names), where=where)
        found = {each for name, text in texts.items() for each in _header_of(name, text).lazy}
        if found <= names.keys():
            return tuple(names)
        names |= dict.fromkeys(sorted(found))


def _lazily(names: tuple[str, ...], lazy: dict[str, str], helpers: dict[str, str]) -> list[str]:
    """The helpers, and a function that hands out the lazy ones, each made when first asked for."""
    if not names:
        return [*helpers.values()]
    uses = {name: _header_of(name, text).uses for name, text in lazy.items()}
    users: dict[str, set[str]] = {name: {name} if name in names else set() for name in lazy}
    for name in reversed([*lazy]):
        # What several use is made for itself, anything else together with the one that uses it.
        home = {name} if len(users[name]) > 1 else users[name]
        for each in uses[name]:
            if each in users:
                users[each] |= home
    homes = {name: name if len(found) > 1 else min(found) for name, found in users.items()}
    return [
        "local lazy",
        *helpers.values(),
        "do\nlocal made\nlazy = function()\nif made then return made end",
        "made = setmetatable({}, { __index = function(made, name)",
        *(
            _made_at_once([name for name in lazy if homes[name] == home], uses, lazy)
            # What is asked for stands behind what it uses, and is found sooner in front.
            for home in reversed([*lazy])
            if homes[home] == home
        ),
        "end })\nreturn made\nend\nend",
    ]


def _made_at_once(
    names: list[str], uses: Mapping[str, tuple[str, ...]], lazy: Mapping[str, str]
) -> str:
    """The last of these helpers behind the others; what else they need is asked for."""
    *_, asked = names
    needed = dict.fromkeys(each for name in names for each in uses[name])
    others = [
        f"local {each} = made.{each}" for each in needed if each in lazy and each not in names
    ]
    return "\n".join(
        [
            f"if name == '{asked}' then",
            *others,
            *(lazy[name] for name in names),
            f"made.{asked} = {asked}\nreturn {asked}\nend",
        ]
    )


@cache
def _header_of(name: str, text: str) -> Header:
    """What a helper says about itself; most are in many scripts."""
    return parse_header(text, where=f"helper {name}")


def _helper(package: str, name: str, where: str) -> str:
    for home in (package, SHARED):
        if text := _shared(home).get(name):
            return text
    raise ValueError(f"{where} uses {name}, but no file in lua/shared has `local function {name}`")


@lru_cache
def _shared(package: str) -> dict[str, str]:
    """Every helper of a package by its name, with its header."""
    folder = _lua(package) / "shared"
    texts: dict[str, str] = {}
    for file in folder.iterdir() if folder.is_dir() else ():
        for text in _read(file).split("\n\n---"):
            names = re.findall(r"^local function (\w+)", text, re.MULTILINE)
            if len(names) != 1 or names[0] in texts:
                raise ValueError(
                    f"{file} must hold local functions, each once and under a header of its own"
                )
            texts[names[0]] = text if text.startswith("---") else f"---{text}"
    return texts


def _script(package: str, name: str) -> tuple[str, str]:
    """Where a script lies under `lua/`, and its text."""
    places = _places(package)
    if name not in places:
        raise ValueError(f"there is no script {_lua(package) / f'{name}.lua'}")
    family, file = places[name]
    return f"{family}{name}", _read(file)


@lru_cache
def _places(package: str) -> dict[str, tuple[str, Traversable]]:
    """The family and the file of each script of a package."""
    places: dict[str, tuple[str, Traversable]] = {}
    folder = _lua(package)
    families = [("", folder)]
    families += [(f"{each.name}/", each) for each in folder.iterdir() if each.is_dir()]
    for family, home in families:
        for file in home.iterdir() if family != "shared/" else ():
            name = file.name.removesuffix(".lua")
            if name == file.name:
                continue
            if name in places:
                raise ValueError(f"{package} has two scripts {name}: give each a name of its own")
            places[name] = (family, file)
    return places


def _lua(package: str) -> Traversable:
    return resources.files(package) / "lua"


def _read(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


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

import asyncio
import importlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis as sync_redis
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from waystation.core.errors import (
    InvalidInput,
    LeaseLost,
    NotFound,
    ScriptFailed,
    StoreBusy,
    WrongType,
)
from waystation.core.store.connection import connect
from waystation.core.store.script import LuaScript
from waystation.core.store.script.text import parse_header

Written = Callable[..., Any]

HEAD = """
from typing import Any
from waystation.core.store.keyspace import Keyspace, List, String
from waystation.core.store.script import raw, script

class Keys(Keyspace):
    wait = List("wait", "what waits")
    lock = String("lock", "who holds it", ttl="30 s")

    lanes: tuple[str, ...] = ()

keys = Keys("mail")
"""
FUNCTION = '''
@script(reply=raw)
async def {name}(redis: Any, keys: Keys{args}) -> Any:
    """Do it."""
    ...
'''

_numbers = itertools.count()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Write a package with scripts and their functions, and import the functions."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(LuaScript, "every", [*LuaScript.every])

    def write(lua: dict[str, str], *, args: str = "", more: str = "") -> Any:
        package = f"scripts_{next(_numbers)}"
        for name, text in lua.items():
            file = tmp_path / package / "lua" / f"{name}.lua"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        names = [name.split("/")[-1] for name in lua if not name.startswith("shared/")]
        declared = "".join(
            FUNCTION.format(name=name, args=args and f", *, {args}") for name in names
        )
        (tmp_path / package / "scripts.py").write_text(HEAD + declared + more)
        (tmp_path / package / "__init__.py").touch()
        importlib.invalidate_caches()
        scripts = importlib.import_module(f"{package}.scripts")
        assert all(each.header for each in LuaScript.of(package).values())
        return scripts

    return write


PUSH = """\
--- Put a value in line, and say how many there are.
--- keys  wait
--- args  value
return redis.call('LPUSH', wait, value)
"""


async def test_a_function_gives_its_script_what_the_header_names(
    redis: Redis, written: Written
) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    assert await scripts.push(redis, scripts.keys, value="a") == 1
    assert await scripts.push(redis, scripts.keys, value=b"b") == 2
    assert await redis.lrange(scripts.keys.wait, 0, -1) == [b"b", b"a"]


async def test_keys_and_arguments_keep_the_order_of_the_header(
    redis: Redis, written: Written
) -> None:
    lua = "--- Tell.\n--- keys lock wait\n--- args b a\nreturn {lock, wait, b, a}"
    scripts = written({"tell": lua}, args="a: str, b: int")
    answer = await scripts.tell(redis, scripts.keys, a="A", b=2)
    assert answer == [b"waystation:mail:lock", b"waystation:mail:wait", b"2", b"A"]


async def test_dots_spread_a_sequence_behind_the_other_arguments(
    redis: Redis, written: Written
) -> None:
    lua = """--- Add up pairs.
--- args  factor pairs...
local sum = 0
for i = pairs_, #ARGV, 2 do sum = sum + tonumber(ARGV[i]) * tonumber(ARGV[i + 1]) end
return sum * tonumber(factor)
""".replace("pairs...", "pairs_...")
    scripts = written({"add": lua}, args="factor: int, pairs_: list[int]")
    assert await scripts.add(redis, scripts.keys, factor=10, pairs_=[1, 2, 3, 4]) == 140
    assert await scripts.add(redis, scripts.keys, factor=10, pairs_=()) == 0
    with pytest.raises(InvalidInput, match="pairs_ takes a sequence of values, got 'ab'"):
        await scripts.add(redis, scripts.keys, factor=10, pairs_="ab")


async def test_a_default_stands_in_for_an_argument_left_out(redis: Redis, written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str = 'usual'")
    await scripts.push(redis, scripts.keys)
    assert await redis.lrange(scripts.keys.wait, 0, -1) == [b"usual"]


async def test_a_flushed_script_cache_goes_unnoticed(redis: Redis, written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    for count in (1, 2, 3):
        assert await scripts.push(redis, scripts.keys, value="x") == count
        await redis.script_flush()
    await scripts.push(redis, scripts.keys, value="x")
    assert await redis.script_exists(scripts.push.sha) == [True]


async def test_helpers_come_once_and_behind_what_they_use(redis: Redis, written: Written) -> None:
    lua = {
        "greet": "--- Greet.\n--- args who\n--- uses loud twice\nreturn loud(twice(who))",
        "shared/loud": "--- Shout.\n--- uses twice\n"
        "local function loud(text)\n  if text then return string.upper(twice(text)) end\nend",
        "shared/twice": "--- Say again.\nlocal function twice(text) return text .. text end",
    }
    scripts = written(lua, args="who: str")
    assert await scripts.greet(redis, scripts.keys, who="a") == b"AAAA"
    assert scripts.greet.source.count("local function twice") == 1


async def test_a_helper_may_have_others_made_only_when_it_asks(
    redis: Redis, written: Written
) -> None:
    lua = {
        "count": "--- Count.\n--- uses step\nlocal first = step(1)\nreturn { first, step(9) }",
        "shared/step": "--- One further.\n--- lazy far\n"
        "local function step(n) return n < 9 and n + 1 or lazy().far(n) end",
        "shared/far": "--- Far away.\n--- uses twice\n--- lazy last\n"
        "local function far(n) return lazy().last(twice(n)) end",
        "shared/last": "--- The last.\nlocal function last(n) return n + 0 end",
        "shared/twice": "--- Double.\nlocal function twice(n) return 2 * n end",
    }
    scripts = written(lua)
    assert await scripts.count(redis, scripts.keys) == [2, 18]


async def test_a_script_that_reports_one_of_our_errors_raises_it(
    redis: Redis, written: Written
) -> None:
    lua = "--- Fail.\nreturn redis.error_reply('LEASE_LOST job 7 is held by another')"
    scripts = written({"fail": lua})
    with pytest.raises(LeaseLost, match=r"^job 7 is held by another$"):
        await scripts.fail(redis, scripts.keys)


async def test_a_script_that_falls_over_says_in_which_line(redis: Redis, written: Written) -> None:
    lua = "--- Fail.\n--- keys wait\n\nlocal nothing\nreturn nothing.field"
    scripts = written({"fail": lua})
    with pytest.raises(ScriptFailed, match=r"lua/fail\.lua line 5: .*nil value"):
        await scripts.fail(redis, scripts.keys)


async def test_a_full_store_is_busy_and_nothing_happens(redis: Redis, written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreBusy, match="maxmemory"):
            await scripts.push(redis, scripts.keys, value="x")
    finally:
        await redis.config_set("maxmemory", 0)
    assert await redis.exists(scripts.keys.wait) == 0


def test_the_same_function_serves_a_client_that_waits(redis_url: str, written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    with sync_redis.Redis.from_url(redis_url) as client:
        client.script_flush()
        assert scripts.push.call_sync(client, scripts.keys, value="a") == 1
        assert scripts.push.call_sync(client, scripts.keys, value="a") == 2


async def test_the_assembled_text_runs_from_any_client(redis: Redis, written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    text = scripts.push.source
    assert await redis.execute_command("EVAL", text, 1, "elsewhere", "v") == 1
    assert await redis.script_load(text) == scripts.push.sha


TAKE = """\
--- Forget the lock, then take from the line.
--- keys  lock wait
redis.call('DEL', lock)
return redis.call('RPOP', wait)
"""


async def test_a_key_of_another_type_stops_a_script_before_it_writes(
    redis: Redis, redis_url: str, written: Written
) -> None:
    scripts = written({"take": TAKE})
    await redis.set(scripts.keys.lock, "held")
    await redis.set(scripts.keys.wait, "no list")
    sentence = "waystation:mail:wait must hold a list, but holds a string; nothing was changed"
    with pytest.raises(WrongType, match=sentence):
        await scripts.take(redis, scripts.keys)
    with sync_redis.Redis.from_url(redis_url) as client, pytest.raises(WrongType, match=sentence):
        scripts.take.call_sync(client, scripts.keys)
    assert await redis.get(scripts.keys.lock) == b"held"


async def test_a_script_may_look_at_its_keys_itself(redis: Redis, written: Written) -> None:
    scripts = written({"take": TAKE.replace("wait\n", "wait\n--- unchecked  lock\n", 1)})
    await redis.lpush(scripts.keys.lock, "no string")
    await redis.lpush(scripts.keys.wait, "a")
    assert await scripts.take(redis, scripts.keys) == b"a"


def test_only_keys_can_be_left_unchecked(written: Written) -> None:
    lua = TAKE.replace("wait\n", "wait\n--- unchecked  delayed\n", 1)
    with pytest.raises(ValueError, match="leaves delayed unchecked, but has no such keys"):
        written({"take": lua})


def test_a_script_that_only_reads_checks_nothing(written: Written) -> None:
    read = "--- Look.\n--- keys  wait lock\nreturn redis.call('LLEN', wait)"
    chosen = "--- Look.\n--- keys  wait lock\nreturn redis.call(lock and 'LLEN' or 'LPOP', wait)"
    assert "STRLEN" not in written({"look": read}).look.source
    assert "redis.call('STRLEN', lock)" in written({"look": chosen}).look.source


async def test_a_function_takes_the_hot_path_too(redis_url: str, written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    fail = written({"fail": "--- Fail.\nreturn redis.error_reply('NOT_FOUND job 7')"})
    async with await connect(redis_url) as store:
        await store.redis.script_flush()
        counts = await asyncio.gather(
            *(scripts.push(store.hot, scripts.keys, value=n) for n in range(50))
        )
        assert sorted(counts) == list(range(1, 51))
        with pytest.raises(NotFound, match="job 7"):
            await fail.fail(store.hot, fail.keys)


@pytest.mark.parametrize("way", ["hot", "redis"])
async def test_a_prepared_step_is_taken_when_it_is_called(
    redis_url: str, written: Written, way: str
) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    async with await connect(redis_url) as store:
        client = getattr(store, way)
        steps = [scripts.push.prepare(client, scripts.keys, value=value) for value in "abc"]
        await store.redis.script_flush()
        assert [await step() for step in reversed(steps)] == [1, 2, 3]
        assert await store.redis.lrange(scripts.keys.wait, 0, -1) == [b"a", b"b", b"c"]


async def test_a_function_finds_its_node_in_a_cluster(cluster_url: str, written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    async with await connect(cluster_url) as store:
        for name in ("{a}", "{b}", "{c}"):
            assert await scripts.push(store.hot, scripts.Keys(name), value="x") == 1


async def test_an_enumeration_of_texts_may_be_sent(redis: Redis, written: Written) -> None:
    colours = "\nfrom enum import StrEnum\nclass Colour(StrEnum):\n    RED = 'red'\n"
    scripts = written({"push": PUSH}, args="value: str", more=colours)
    await scripts.push(redis, scripts.keys, value=scripts.Colour.RED)
    assert await redis.lrange(scripts.keys.wait, 0, -1) == [b"red"]


@pytest.mark.parametrize("value", [None, True, {"a": 1}, object()])
async def test_a_value_that_cannot_be_sent_is_refused(
    redis: Redis, written: Written, value: object
) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    with pytest.raises(InvalidInput, match="value of push must be text, bytes or a number"):
        await scripts.push(redis, scripts.keys, value=value)


async def test_a_script_may_lie_in_the_folder_of_its_family(redis: Redis, written: Written) -> None:
    scripts = written({"steps/one": "--- Do it.\nreturn 1", "two": "--- Do it.\nreturn 2"})
    assert await scripts.one(redis, scripts.keys) == 1
    assert await scripts.two(redis, scripts.keys) == 2


def test_a_name_is_given_to_one_script_of_a_package(written: Written) -> None:
    with pytest.raises(ValueError, match="two scripts do"):
        written({"do": "--- Do it.\nreturn 1", "steps/do": "--- Do it.\nreturn 2"})


async def test_missing_and_unknown_arguments_are_named(redis: Redis, written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    with pytest.raises(TypeError, match="needs the argument 'value'"):
        await scripts.push(redis, scripts.keys)
    with pytest.raises(TypeError, match="has no argument colour"):
        await scripts.push(redis, scripts.keys, value="a", colour="red")


@pytest.mark.parametrize(
    ("lua", "args", "complaint"),
    [
        ("return 1", "", "must start with a sentence"),
        ("--- Do it.\n--- uses nothing_there\nreturn 1", "", "no file in lua/shared has"),
        ("--- Do it.\n--- args a a\nreturn 1", "a: str", "names a twice"),
        ("--- Do it.\n--- args a... b\nreturn 1", "a: str, b: str", "cannot be the name of a slot"),
        ("--- Do it.\n--- args end\nreturn 1", "", "'end' cannot be the name of a slot"),
        ("--- Do it.\n--- args b\nreturn b", "a: str", "takes a, but .*do.lua takes b"),
        ("--- Do it.\n--- keys gone\nreturn gone", "", "needs the keys gone, which Keys"),
    ],
)
def test_a_slip_is_caught_before_anything_is_sent(
    written: Written, lua: str, args: str, complaint: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=complaint):
        written({"do": lua}, args=args)


@pytest.mark.parametrize(
    ("lua", "complaint"),
    [
        ("--- Do it.\nreturn valeu", "nobody declares: valeu"),
        ("--- Do it.\ncount = 1\nreturn 1", "nobody declares: count"),
        ("--- Do it.\nreturn redis.call('get', 'a')", "upper case: 'get'"),
    ],
)
def test_a_slip_is_caught_by_a_look_at_the_words(
    written: Written, lua: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        written({"do": lua}).do.script.check()


@pytest.mark.parametrize(
    ("helper", "complaint"),
    [
        ("--- Other name.\nlocal function other() return 1 end", "no file in lua/shared has"),
        (
            "--- Two.\nlocal function help() return 1 end\nlocal function more() return 2 end",
            "under a header of its own",
        ),
        ("--- Not local.\nfunction help() return 1 end", "must hold local functions"),
        (
            "--- Twice.\nlocal function help() end\n\n--- Twice.\nlocal function help() end",
            "each once",
        ),
        (
            "--- A loose end.\nlocal function help() if true then return 1 end end\nreturn 2",
            "must be one `local function help",
        ),
    ],
)
def test_a_helper_is_one_local_function_under_its_header(
    written: Written, helper: str, complaint: str
) -> None:
    lua = {"use": "--- Use.\n--- uses help\nreturn help()", "shared/help": helper}
    with pytest.raises(ValueError, match=complaint):
        written(lua).use.script.check()


async def test_a_file_may_hold_a_family_of_helpers(redis: Redis, written: Written) -> None:
    family = """--- One.
local function one() return 1 end

--- Two, which needs one.
--- uses one
local function two() return one() + 1 end

--- Nobody uses this.
local function three() return 3 end
"""
    scripts = written({"use": "--- Use.\n--- uses two\nreturn two()", "shared/numbers": family})
    assert await scripts.use(redis, scripts.keys) == 2
    assert "three" not in scripts.use.source


def test_helpers_in_a_circle_are_refused(written: Written) -> None:
    lua = {
        "use": "--- Use.\n--- uses a\nreturn a()",
        "shared/a": "--- A.\n--- uses b\nlocal function a() return b() end",
        "shared/b": "--- B.\n--- uses a\nlocal function b() return a() end",
    }
    with pytest.raises(ValueError, match="a → b → a"):
        written(lua)


def test_a_function_without_a_script_is_refused(written: Written) -> None:
    with pytest.raises(ValueError, match="there is no script"):
        written({"shared/x": "--- X."}, more=FUNCTION.format(name="lonely", args=""))


def test_fields_parameters_and_loops_are_not_mistaken_for_globals(written: Written) -> None:
    lua = """--- Do it.
--- args  id
local seen, count = {}, 0
local entry = { id = id, nested = { kind = 'x', ['other'] = 1 } }
for _, name in ipairs({ 'a', "b" }) do seen[name] = #name end
local function add(amount, ...) count = count + amount + select('#', ...) end
local time = redis.call('TIME') -- nobody declares this word
repeat add(1, 2) until count > 1e1 or entry.nested.kind == [[missing words]]
return count .. ('x'):rep(2) .. tostring(time[1] ~= nil)
"""
    scripts = written({"do_it": lua}, args="id: str")
    scripts.do_it.script.check()


def test_every_function_is_known(written: Written) -> None:
    scripts = written({"push": PUSH}, args="value: str")
    assert scripts.push in LuaScript.every
    assert scripts.push.header.summary == "Put a value in line, and say how many there are."


def test_a_header_may_take_several_lines() -> None:
    text = "--- One sentence\n--- in two lines.\n--- args a\n--- args b c...\nreturn 1"
    header = parse_header(text, where="here")
    assert header.summary == "One sentence in two lines."
    assert (header.args, header.rest) == (("a", "b"), "c")


async def test_a_last_key_with_dots_stands_for_as_many_as_the_caller_has(
    written: Written, redis: Redis
) -> None:
    lua = """--- Count.
--- keys  wait lanes...
--- args  value
for i = lanes, #KEYS do redis.call('SET', KEYS[i], value) end
return #KEYS
"""
    scripts = written({"spread": lua}, args="value: str", more="Keys.lanes = ('a', 'b', 'c')\n")
    assert await scripts.spread(redis, scripts.keys, value="x") == 4
    assert await redis.mget("a", "b", "c") == [b"x"] * 3


async def test_first_arguments_that_the_keys_give_are_no_callers(
    written: Written, redis: Redis
) -> None:
    lua = "--- Say them.\n--- keys  wait\n--- args  name id\nreturn { name, id }"
    given = 'Keys.script_args = ("name",)\n'
    scripts = written({"say": lua}, args="id: str", more=given)
    assert await scripts.say(redis, scripts.keys, id="7") == [b"mail", b"7"]
    with pytest.raises(TypeError, match="has no argument name"):
        await scripts.say(redis, scripts.keys, name="post", id="7")


async def test_a_table_has_all_keys_and_the_arguments_that_stand_behind_it(
    written: Written, redis: Redis
) -> None:
    lua = "--- Say them.\n--- keys  wait lock\n--- args  id\n--- as    line id\n"
    scripts = written({"say": lua + "return { line.wait, line.lock, line.id }"}, args="id: str")
    assert await scripts.say(redis, scripts.keys, id="7") == [
        b"waystation:mail:wait", b"waystation:mail:lock", b"7",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="has no arguments other for line"):
        parse_header("--- Say.\n--- as  line other", where="here")


async def test_what_is_not_the_stores_fault_is_left_alone(redis: Redis) -> None:
    with pytest.raises(ResponseError):
        await redis.execute_command("EVALSHA", "0" * 40, 0)

"""How much each call of a script does, counted in items and not in time."""

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from waystation.core.store.script import LuaScript

# Each command weighs one, and so does each of its arguments and each item of its reply. Looking for
# an entry of a list weighs as much as may have to be walked past.
_WEIGHED = """
local real, weight = redis, 0
local function items(value)
  if type(value) ~= 'table' then return 1 end
  local count = 1
  for _, each in ipairs(value) do count = count + items(each) end
  return count
end
local function weighed(call)
  return function(command, key, ...)
    local given, most = { ... }, nil
    if command == 'LPOS' then
      most = real.call('LLEN', key)
      for at, word in ipairs(given) do
        if word == 'MAXLEN' then most = math.min(most, tonumber(given[at + 1])) end
      end
    elseif command == 'LREM' then
      local size, at = real.call('LLEN', key), real.call('LPOS', key, given[2])
      most = at and tonumber(given[1]) < 0 and size - at or at or size
    end
    local reply = key and call(command, key, ...) or not key and call(command)
    weight = weight + 1 + #given + items(reply) + (most or 0)
    return reply
  end
end
local redis = setmetatable(
  { call = weighed(real.call), pcall = weighed(real.pcall) }, { __index = real }
)
local function body()
BODY
end
local reply = body()
if type(reply) == 'table' and reply.err then return reply end
if reply == nil then reply = false end
return { reply, weight }
"""


@contextmanager
def weighed(patch: pytest.MonkeyPatch) -> Generator[dict[str, int]]:
    """The heaviest call of each script that is made inside, by the script's name."""
    heaviest: defaultdict[str, int] = defaultdict(int)

    async def call(script: Any, args: Any, client: Any, keys: Any = None) -> Any:
        count, slots = script._slots(keys, args)
        text = _WEIGHED.replace("BODY", script.source)
        reply, weight = await client.execute_command("EVAL", text, count, *slots)
        heaviest[script.name] = max(heaviest[script.name], weight)
        return script._reply(reply)

    with patch.context() as patched:
        patched.setattr(LuaScript, "_call", call)
        yield heaviest

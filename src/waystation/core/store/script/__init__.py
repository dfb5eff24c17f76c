"""Lua scripts: a typed Python function for each `.lua` file, one atomic step each."""

from waystation.core.store.script.declaration import (
    Client,
    LuaScript,
    SyncClient,
    raw,
    script,
    texts,
)

__all__ = ["Client", "LuaScript", "SyncClient", "raw", "script", "texts"]

"""The wire of routing: keys, scripts and their Lua."""

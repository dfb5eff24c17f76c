"""The keys and the Lua scripts of the waiting room."""

"""Handlers: the user's functions, run on the loop, in threads or in processes."""

from waystation.core.runtime.handlers.handler import Handler, handler_of

__all__ = ["Handler", "handler_of"]

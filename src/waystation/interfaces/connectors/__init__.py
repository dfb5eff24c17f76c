"""The waiting room in front of a Python site: middleware that lets in whoever has a session."""

from .asgi import WaitingRoomMiddleware
from .rules import Rule
from .wsgi import WaitingRoomWsgi

__all__ = ["Rule", "WaitingRoomMiddleware", "WaitingRoomWsgi"]

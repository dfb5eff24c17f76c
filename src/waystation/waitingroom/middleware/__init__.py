"""The waiting room in front of a Python site: middleware that lets in whoever has a session."""

from waystation.waitingroom.middleware.asgi import WaitingRoomMiddleware
from waystation.waitingroom.middleware.rules import Rule
from waystation.waitingroom.middleware.wsgi import WaitingRoomWsgi

__all__ = ["Rule", "WaitingRoomMiddleware", "WaitingRoomWsgi"]

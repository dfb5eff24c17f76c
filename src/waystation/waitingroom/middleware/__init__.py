"""Middleware for Python sites: lets visitors with a session pass and sends others to wait."""

from waystation.waitingroom.middleware.asgi import WaitingRoomMiddleware
from waystation.waitingroom.middleware.rules import Rule
from waystation.waitingroom.middleware.wsgi import WaitingRoomWsgi

__all__ = ["Rule", "WaitingRoomMiddleware", "WaitingRoomWsgi"]

"""Middleware for Python sites: lets visitors with a session pass and sends others to wait.

For Django: `waystation.waitingroom.middleware.django`.
"""

from waystation.waitingroom.middleware.asgi import WaitingRoomMiddleware
from waystation.waitingroom.middleware.gate import GateOptions
from waystation.waitingroom.middleware.wsgi import WaitingRoomWsgi
from waystation.waitingroom.rules import Rule

__all__ = ["GateOptions", "Rule", "WaitingRoomMiddleware", "WaitingRoomWsgi"]

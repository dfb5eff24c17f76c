"""Bring what waits in queues of Celery and RQ to ours, without losing a message."""

from waystation.integrations.bring.bridge import Bridge, Brought, Left, TaskMap
from waystation.integrations.bring.celery import CeleryQueue
from waystation.integrations.bring.rq import RqQueue

__all__ = ["Bridge", "Brought", "CeleryQueue", "Left", "RqQueue", "TaskMap"]

"""Bring what waits in queues of Celery and RQ to ours, without losing a message."""

from waystation_bring.bridge import Bridge, Brought, Left, TaskMap
from waystation_bring.celery import CeleryQueue
from waystation_bring.rq import RqQueue

__all__ = ["Bridge", "Brought", "CeleryQueue", "Left", "RqQueue", "TaskMap"]

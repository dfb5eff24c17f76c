"""A crowd made of numbers in front of the real room, faster than time."""

from .measures import Verdict
from .people import Crowd, Mood
from .run import Simulation

__all__ = ["Crowd", "Mood", "Simulation", "Verdict"]

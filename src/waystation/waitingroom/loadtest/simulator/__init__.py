"""A crowd made of numbers in front of the real room, faster than time."""

from waystation.waitingroom.loadtest.simulator.measures import Verdict
from waystation.waitingroom.loadtest.simulator.people import Crowd, Mood
from waystation.waitingroom.loadtest.simulator.run import Simulation

__all__ = ["Crowd", "Mood", "Simulation", "Verdict"]

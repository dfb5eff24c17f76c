"""Simulator: visitors at a real room with a clock of its own, faster than time."""

from waystation.waitingroom.simulator.measures import Verdict
from waystation.waitingroom.simulator.people import Crowd, Mood
from waystation.waitingroom.simulator.run import Simulation

__all__ = ["Crowd", "Mood", "Simulation", "Verdict"]

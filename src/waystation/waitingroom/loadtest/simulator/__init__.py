"""Simulator: visitors at a real room with a clock of its own, faster than time."""

from waystation.waitingroom.loadtest.simulator.measures import Verdict
from waystation.waitingroom.loadtest.simulator.people import Crowd, Mood
from waystation.waitingroom.loadtest.simulator.run import Simulation

__all__ = ["Crowd", "Mood", "Simulation", "Verdict"]

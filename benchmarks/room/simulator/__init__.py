"""Simulator: visitors at a real room with a clock of its own, faster than time."""

from benchmarks.room.simulator.measures import Verdict
from benchmarks.room.simulator.people import Crowd, Mood
from benchmarks.room.simulator.run import Simulation

__all__ = ["Crowd", "Mood", "Simulation", "Verdict"]

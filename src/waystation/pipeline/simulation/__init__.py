"""Simulation: recorded work once more, with other numbers of workers, limits and orders."""

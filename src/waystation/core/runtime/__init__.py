"""Processes that do work, without knowing where it is kept."""

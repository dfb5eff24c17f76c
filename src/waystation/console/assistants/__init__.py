"""Assistants: the console for programs that speak the Model Context Protocol."""

"""The HTTP API of the waiting room: for visitors, for sites and for operators."""

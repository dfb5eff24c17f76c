"""Why: one sentence on why a job, a file, a visitor or a queue does not move, and its evidence."""

from waystation.console.why.answer import Answer, Cause
from waystation.console.why.asking import why

__all__ = ["Answer", "Cause", "why"]

"""SQL over the history: one SELECT of a caller, in a process of its own with limits that hold.

A single call of a function cannot be interrupted inside DuckDB, and takes memory that DuckDB does
not count. The system ends a process whatever it does.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile

import msgspec

from waystation.console.past.history import Selected
from waystation.console.past.jobs import THREADS, beginning
from waystation.core.errors import HistoryError, InvalidInput, WaystationError
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.products import product_tables

MOST_MB = 1024
"""Memory that DuckDB may use; the process may use twice as much."""
OPENING_S = 60.0
"""How long the process may take besides, to start and to open the tables."""
REFUSED, TOO_LARGE = 3, 4
_OUT_OF_MEMORY = (TOO_LARGE, -signal.SIGABRT, -signal.SIGKILL)
"""How the process ends that gets no more memory: in Python, in C++, or by the system's hand."""
_TOO_LONG = "the answer took too long; ask about fewer days or one queue"


class SqlRequest(msgspec.Struct, array_like=True):
    """A question, as it is handed to the process."""

    root: str
    query: str
    most: int
    seconds: float


def answer(root: str, query: str, most: int, seconds: float) -> Selected:
    """Answer one SELECT, with so many rows at most and in so many seconds."""
    asked = msgspec.json.encode(SqlRequest(root, query, most, seconds))
    # What DuckDB has spilled goes with the folder, also when the process was ended.
    with tempfile.TemporaryDirectory(prefix="waystation-sql-") as spill:
        try:
            done = subprocess.run(  # noqa: S603, it is this program
                [sys.executable, "-m", __name__],
                input=asked,
                capture_output=True,
                check=False,
                timeout=seconds + OPENING_S,
                env={**os.environ, "TMPDIR": spill},
            )
        except subprocess.TimeoutExpired:
            # A store that does not answer must not keep the turn of others.
            raise InvalidInput(_TOO_LONG) from None
    if done.returncode == 0:
        return msgspec.json.decode(done.stdout, type=Selected)
    if done.returncode == -signal.SIGALRM:
        raise InvalidInput(_TOO_LONG)
    if done.returncode == REFUSED:
        raise InvalidInput(done.stdout.decode())
    if done.returncode in _OUT_OF_MEMORY:
        raise InvalidInput(f"the answer needs more than {2 * MOST_MB:,} MB; ask about less")
    last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1]
    raise HistoryError(f"the process that answers SQL ended with {done.returncode}: {last}")


def main() -> int:
    """Answer the question on standard input, or say what is wrong with it."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=SqlRequest)
    most_bytes = 2 * MOST_MB * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    try:
        found = _selected(asked)
    except WaystationError as error:
        sys.stdout.write(str(error))
        return REFUSED
    except MemoryError:
        return TOO_LARGE
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


def _selected(asked: SqlRequest) -> Selected:
    with Engine(asked.root, threads=THREADS, memory_mb=MOST_MB) as engine:
        engine.add_tables(product_tables())
        # Nothing handles it, so that it ends the process.
        signal.setitimer(signal.ITIMER_REAL, max(asked.seconds, 0.001))
        found = engine.ask(asked.query, asked.most)
    rows = [
        [beginning(each) if isinstance(each, str) else each for each in row] for row in found.rows
    ]
    return Selected(columns=found.names, rows=rows, complete=found.complete)


if __name__ == "__main__":
    sys.exit(main())

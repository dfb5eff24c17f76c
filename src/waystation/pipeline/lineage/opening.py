"""The lineage of a run: events for every round of it, or none where nobody wants them."""

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from waystation.core.errors import InvalidOption


class RoundLineage(Protocol):
    """What is told about one round while it runs."""

    def reads(self, streams: Iterable[str]) -> None:
        """Name the streams that it reads."""
        ...

    def was_stopped(self) -> None:
        """Say that it ends before it is done."""
        ...


class Lineage(Protocol):
    """Tells about the rounds of a run."""

    def round(self) -> AbstractContextManager[RoundLineage]:
        """Tell that a round begins, and at the end of the block how it ended."""
        ...


@contextmanager
def opened(to: str, *, root: str, url: str) -> Generator[Lineage]:
    """The lineage of a run on the history at `root` that reads the store at `url`.

    `to` is the URL of a server or the name of a file; nothing is told when it is empty.
    """
    if not to:
        yield _Untold()
        return
    try:
        from waystation.pipeline.lineage.rounds import told_to
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("waystation"):
            raise
        raise InvalidOption(
            f"lineage needs {missing.name}: run pip install 'waystation[lineage]'"
        ) from None
    with told_to(to, root=root, url=url) as lineage:
        yield lineage


class _Untold:
    """Tells nobody."""

    @contextmanager
    def round(self) -> Generator[RoundLineage]:
        yield self

    def reads(self, streams: Iterable[str]) -> None:
        """Ignore it."""

    def was_stopped(self) -> None:
        """Ignore it."""

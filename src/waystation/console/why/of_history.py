"""What the history remembers of a job that is no longer in the store."""

from waystation.console.past.history import History
from waystation.console.query import PastJob
from waystation.console.why.answer import Answer, Cause, at, count, line

_CAUSES = {"completed": Cause.COMPLETED, "failed": Cause.FAILED, "dead": Cause.FAILED}


async def job(history: History, id: str, *, product: str = "", queue: str = "") -> Answer | None:
    """What became of a job; None when the history knows none of this id."""
    found = await history.job(id, product=product, queue=queue)
    if found is None:
        return None
    kind = "file" if found.product == "files" else "job"
    return Answer(
        product=found.product,
        queue=found.queue,
        kind=kind,
        id=found.id,
        cause=_CAUSES.get(found.state or "", Cause.REMOVED),
        sentence=f"{kind.capitalize()} {found.id} {_text(found)}.",
        evidence={
            name: value
            for name, value in (
                ("name", found.name),
                ("added_at", found.added_at and found.added_at.isoformat()),
                ("ended_at", found.ended_at and found.ended_at.isoformat()),
                ("attempts", found.attempts),
                ("failed_reason", found.error),
                ("known_from", "the history"),
            )
            if value is not None
        },
    )


def _text(found: PastJob) -> str:
    ended = at(found.ended_at and found.ended_at.timestamp() * 1000)
    gone = "it is no longer in the store, but the history remembers it"
    match found.state:
        case "completed":
            return f"completed at {ended} after {count(found.attempts or 1, 'attempt')}; {gone}"
        case "failed" | "dead":
            tries = count(found.attempts or 1, "attempt")
            return f"failed for good at {ended} after {tries}: {line(found.error)}; {gone}"
        case "removed":
            return f"was removed at {ended} before it ended; the history remembers it"
        case _:
            return f"is no longer in the store; the history last saw it {found.state or 'added'}"

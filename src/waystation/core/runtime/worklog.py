"""The log of a worker: what became of each job in the store, and of the store itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from waystation.core.errors import ScriptFailed, StoreError, WrongType
from waystation.core.outcome import Done, Failed, Retried, Returned
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.telemetry.logs import Outage, Reminders, describe, get_logger

W = TypeVar("W")
_log = get_logger(__name__)


class WorkLog(Generic[W]):
    """Logs failed attempts as warnings, jobs that failed for good as errors, and whatever else
    an operator has to know.
    """

    def __init__(
        self,
        about: Callable[[Claim[W]], Mapping[str, Any]] | None = None,
        *,
        server: str = "",
        **fields: str,
    ) -> None:
        """`fields` are on every line, and what `about` says on the lines about one job."""
        self._log = _log.bind(**fields)
        self._about = about
        self._server = server
        self._outage = Outage(self._log.bind(server=server))
        self._script_errors = Reminders()

    def started(self) -> None:
        """The worker takes jobs from now on."""
        self._log.info("worker_started", server=self._server)

    def stopping(self, running: int, grace_s: float) -> None:
        """The worker takes no more jobs, and waits for those that run."""
        self._log.info("worker_stopping", count=running, limit_ms=round(grace_s * 1000))

    def stuck(self, is_stuck: bool) -> None:
        """Too many handlers hang in their threads for more to begin; or not any more."""
        if is_stuck:
            self._log.error("worker_stuck", hint="it claims no more until hanging handlers end")
        else:
            self._log.warning("worker_unstuck")

    def stopped(self) -> None:
        """The worker has ended."""
        self._log.info("worker_stopped")

    def settled(self, settled: Sequence[Settled[W]]) -> None:
        """These outcomes were stored."""
        for each in [each for each in settled if type(each.outcome) is not Done]:
            self._report(each)

    def _report(self, settled: Settled[W]) -> None:
        about = self._of(settled.claim)
        about["duration_ms"] = round(settled.took_s * 1000)
        match settled.outcome:
            case Retried(error, attempt, delay_ms):
                about |= {"attempt": attempt, "delay_ms": delay_ms}
                self._log.warning("job_retried", **about, **describe(error))
            case Failed(error, attempt):
                about["attempt"] = attempt
                self._log.error("job_failed", error, **about, **describe(error))
            case Returned():
                self._log.info("job_returned", **about)
            case _:
                pass

    def refused(self, refused: Sequence[Refused[W]]) -> None:
        """These outcomes did not count."""
        for each in refused:
            self._log.warning("outcome_refused", **self._of(each.claim), **describe(each.reason))

    def lost(self, claims: Sequence[Claim[W]]) -> None:
        """The leases of these ran out while they were running."""
        for claim in claims:
            self._log.warning("lease_lost", **self._of(claim))

    def abandoned(self, claims: Sequence[Claim[W]]) -> None:
        """These could not be handed back; others recover them when their leases are over."""
        for claim in claims:
            self._log.warning("job_abandoned", **self._of(claim))

    def troubled(self, error: StoreError) -> None:
        """The store could not be asked."""
        if not isinstance(error, ScriptFailed | WrongType):
            self._outage.goes_on(error)
        elif self._script_errors.is_due(str(error)):
            # The worker tries again and again, and the same sentence helps nobody.
            self._log.error("script_failed", error, error=str(error))

    def answered(self) -> None:
        """The store has answered."""
        self._outage.is_over()

    def _of(self, claim: Claim[W]) -> dict[str, Any]:
        about: dict[str, Any] = {"job_id": claim.id}
        if self._about is not None:
            about |= self._about(claim)
        return about

"""Fetched payloads as claims; what this worker cannot process is set aside."""

from collections.abc import Iterable

from waystation.core.breaker import Permit
from waystation.core.errors import Malformed
from waystation.core.runtime.claim import Claim
from waystation.core.telemetry.logs import describe, get_logger
from waystation.files import job as jobs
from waystation.files.fetch.unmatched import UnmatchedFiles
from waystation.files.job import Job
from waystation.files.metrics import Meter
from waystation.files.reasons import Reason
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.records import Record, dead, skipped

_log = get_logger(__name__)


class FileClaim(Claim[Job]):
    """A job that is ours while its bytes are in our list."""

    __slots__ = ("lane", "permit", "raw")

    def __init__(self, job: Job, raw: bytes, lane: int, *, worker: str) -> None:
        super().__init__(job.id, job, worker)
        self.raw = raw
        self.lane = lane
        self.permit: Permit | None = None


class Reader:
    """Decodes the payloads that one worker fetched."""

    def __init__(
        self, keys: FileKeys, worker: str, unmatched: UnmatchedFiles, meter: Meter | None
    ) -> None:
        self._keys = keys
        self._worker = worker
        self._unmatched = unmatched
        self._meter = meter
        self.aside: list[Record] = []
        """Records for the next call: what is no job, and what other workers have handlers for."""

    def claims(self, raws: Iterable[bytes], lane: int = 0) -> list[FileClaim]:
        """Claims of those payloads that this worker can process."""
        claims: list[FileClaim] = []
        for raw in raws:
            try:
                job = jobs.read(raw)
            except Malformed as error:
                self._set_poison_aside(raw, lane or len(self._keys.queues), error)
                continue
            at = lane or self._keys.lane_of(job.origin_queue, job.priority)
            if self._unmatched.is_wanted(job):
                claims.append(FileClaim(job, raw, at, worker=self._worker))
            else:
                self.aside.append(skipped(raw, job.id, at, job.attempt))
                if self._meter:
                    self._meter.skipped(at)
        return claims

    def _set_poison_aside(self, raw: bytes, lane: int, error: Malformed) -> None:
        # It ends with the next call: a list with something unreadable in it must move on.
        name = jobs.poison_id(raw)
        queue = self._keys.queues[lane - 1]
        _log.error("job_unreadable", job_id=name, queue=queue, **describe(error))
        self.aside.append(dead(raw, name, lane, 1, raw, Reason.MALFORMED, error))
        if self._meter:
            self._meter.failed(lane, Reason.MALFORMED, again=False)

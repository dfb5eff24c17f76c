"""One queue as a source of jobs: claimed and settled in batches, under BullMQ's locks."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from waystation.bullmq.fields import COUNTED
from waystation.bullmq.job import Job, QueueRef, refusal_of
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.client import client_name
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.replies import Settlement
from waystation.bullmq.source.options import ClaimOptions
from waystation.bullmq.source.records import HELD_UP, Record, Records, held_up, remember
from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import LeaseLost, StoreError
from waystation.core.line.event_trail import newest_first
from waystation.core.line.lost_answers import LostAnswers
from waystation.core.line.server_time import script_time
from waystation.core.line.wake_up import WakeUp
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Claim, Extend, Refused, Reply, Settled
from waystation.core.store.connection import Store
from waystation.core.store.script import Client

_Sent = tuple[Settled[Job], Record]
"""An outcome as it will be stored, and what was sent for it."""
_Accepted = tuple[Settled[Job], Record, bytes]
"""An outcome that was stored, what was sent for it, and when it was stored."""
_NOT_FILED, _GONE = b"0", b""
_ENDS = (b"completed", b"failed")
_LEAVE_WITHIN_S = 1.0
"""A store that does not answer keeps nobody from leaving."""
LONGEST_LIMIT_S = 30.0
"""After a longer rate limit than this the worker looks again, because limits can be lifted."""


class BullSource:
    """One queue as a worker sees it."""

    def __init__(
        self,
        store: Store,
        keys: QueueKeys,
        options: ClaimOptions,
        *,
        clock: Clock | None = None,
        progressed: Callable[[Job, Any], None] | None = None,
        sealing: Sealing | None = None,
    ) -> None:
        self._client: Client = store.hot
        self._store = store
        self._keys = keys
        self._options = options
        self._clock = clock
        self._timer: Clock = clock or SystemClock()
        name = client_name(keys, f":w:{options.worker}")
        self._marker = WakeUp(store, "BZPOPMIN", keys.marker, client_name=name, clock=self._timer)
        self._queue = QueueRef(self._client, keys, progressed, sealing)
        self._records = Records(options)
        self._limited_until = 0.0
        self._lost: LostAnswers[Job, Record] = LostAnswers()

    async def open(self) -> None:
        """Show up among the queue's workers."""
        await self._marker.open()

    async def close(self) -> None:
        """Leave what waits to the workers that stay."""
        await self._marker.close()
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_LEAVE_WITHIN_S):
                await scripts.leave(self._client, self._keys)

    async def settle(self, settled: Sequence[Settled[Job]], *, claim: int) -> Reply[Job]:
        """File outcomes away and claim up to `claim` more, in one round trip."""
        if not settled and not claim:
            await scripts.leave(self._client, self._keys)
            return Reply()
        sent, moved = await self._to_send(settled)
        if self._timer.monotonic() < self._limited_until:
            claim = 0
        found = await self._lost.find(self._find_held) if self._lost.tokens else []
        claim = max(0, claim - len(found))
        if not sent and not claim:
            return Reply(found, settled=moved)
        with self._lost.settling(sent) as tokens:
            tokens.update(each.token for each in found)
            settlement, token = await self._call(_flat(sent), claim)
            tokens.add(token)
            accepted, refused = await self._sorted(sent, settlement)
            claims = await self._claims(settlement, token)
        for each, record, at in accepted:
            remember(each.claim.work, record, at)
            moved.append(each)
        return Reply(found + claims, refused, moved)

    async def _to_send(
        self, settled: Sequence[Settled[Job]]
    ) -> tuple[list[_Sent], list[Settled[Job]]]:
        """What is sent for each outcome, and the outcomes for which nothing is."""
        records, in_doubt = self._records, self._lost.in_doubt
        sent: list[_Sent] = []
        moved: list[Settled[Job]] = []
        for each in settled:
            before = in_doubt.get(each.claim) if in_doubt else None
            stored, record = before or records.at_once(each) or await records.of(each)
            if record:
                sent.append((stored, record))
            else:
                moved.append(stored)
        return sent, moved

    async def _sorted(
        self, sent: Sequence[_Sent], settlement: Settlement
    ) -> tuple[list[_Accepted], list[Refused[Job]]]:
        """What was accepted, and what was not."""
        accepted: list[_Accepted] = []
        refused: list[Refused[Job]] = []
        waiting: list[Settled[Job]] = []
        doubtful: list[_Sent] = []
        now = b"%d" % settlement.now
        for (each, record), code in zip(sent, settlement.codes, strict=True):
            if not code:
                accepted.append((each, record, now))
            elif code in HELD_UP:
                error = held_up(code, each.claim.id)
                waiting.append(Settled(each.claim, Failed(error), each.took_s))
            elif each.claim in self._lost.in_doubt:
                doubtful.append((each, record))
            else:
                refused.append(Refused(each.claim, refusal_of(each.claim.work, code)))
        if doubtful:
            worker = self._options.worker
            found = await _filed_before(self._client, self._keys, doubtful, worker=worker)
            for (each, record), at in zip(doubtful, found, strict=True):
                if at is None:
                    lost = LeaseLost(f"job {each.claim.id} was taken back from this worker")
                    refused.append(Refused(each.claim, lost))
                else:
                    accepted.append((each, record, at))
        if waiting:
            # Their children do not let them complete, and nobody else would end them.
            failing = [await self._records.of(each) for each in waiting]
            again = [(each, record) for each, record in failing if record]
            settlement, _ = await self._call(_flat(again), 0)
            more, others = await self._sorted(again, settlement)
            accepted += more
            refused += others
        return accepted, refused

    async def _call(
        self, outcomes: Sequence[str | bytes | int], claim: int
    ) -> tuple[Settlement, str]:
        options, limit = self._options, self._options.limiter
        with self._lost.calling(claim) as token:
            settlement = await scripts.settle(
                self._client,
                self._keys,
                base=self._keys.base,
                now=script_time(self._clock),
                token=token,
                lease_ms=options.lock_duration,
                want=claim,
                worker=options.worker,
                max=limit.max if limit else "",
                duration=limit.duration_ms if limit else "",
                metrics=options.metrics_points or "",
                outcomes=outcomes,
            )
        # Another call may be waiting at the marker already, so the marker has to know at once.
        if settlement.limited_ms > 0:
            self._limited_until = self._timer.monotonic() + settlement.limited_ms / 1000
            self._marker.expect(settlement.limited_ms)
        elif settlement.due_in_ms > 0:
            self._marker.expect(settlement.due_in_ms)
        return settlement, token

    async def _find_held(self, tokens: Sequence[str]) -> list[Claim[Job]]:
        """The jobs that are locked with one of these tokens."""
        found = await scripts.find_held(
            self._client, self._keys, base=self._keys.base, tokens=tokens
        )
        return await self._named(
            (found[at], [*found[at + 2], COUNTED, b""], found[at + 1].decode())
            for at in range(0, len(found), 3)
        )

    async def _claims(self, settlement: Settlement, token: str) -> list[Claim[Job]]:
        raw = settlement.claims
        places = range(0, len(raw), 2)
        # What the script has written since it read the fields.
        started = [b"processedOn", b"%d" % settlement.now, b"pb", self._options.worker.encode()]
        try:
            return [self._claim(raw[at], [*raw[at + 1], *started], token) for at in places]
        except UnicodeDecodeError:
            return await self._named((raw[at], [*raw[at + 1], *started], token) for at in places)

    async def _named(self, found: Iterable[tuple[bytes, Sequence[bytes], str]]) -> list[Claim[Job]]:
        """The jobs whose ids are text; others cannot be worked on, and fail."""
        claims: list[Claim[Job]] = []
        nameless: list[str | bytes | int] = []
        for id, fields, token in found:
            try:
                claims.append(self._claim(id, fields, token))
            except UnicodeDecodeError:
                reason = f"a job's id must be UTF-8, got {id!r}"
                nameless += ("failed", id, token, reason, b"[]", "", 1, "")
        if nameless:
            await self._call(nameless, 0)
        return claims

    def _claim(self, id: bytes, flat: Sequence[bytes], token: str) -> Claim[Job]:
        text = id.decode()
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return Claim(text, Job(text, fields, self._queue, token), token)

    async def wait(self, at_most: float) -> None:
        """Return when there may be work."""
        limited = self._limited_until - self._timer.monotonic()
        if limited > 0:
            await self._timer.sleep(min(limited, LONGEST_LIMIT_S))
            self._marker.forget_what_is_due()
        else:
            await self._marker.wait(at_most)

    @contextlib.asynccontextmanager
    async def keeper(self) -> AsyncGenerator[Extend]:
        """Open the way to renew locks, with a connection of its own."""
        async with self._store.clone() as store:

            async def extend(claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
                locks = [text for claim in claims for text in (claim.id, claim.token)]
                lost: list[int] = await scripts.extend_locks(
                    store.redis,
                    self._keys,
                    base=self._keys.base,
                    lease_ms=self._options.lock_duration,
                    locks=locks,
                )
                return [claims[place - 1] for place in lost]

            yield extend


def _flat(sent: Sequence[_Sent]) -> list[str | bytes | int]:
    return [part for _, record in sent for part in record]


async def _filed_before(
    client: Client, keys: QueueKeys, sent: Sequence[_Sent], *, worker: str
) -> list[bytes | None]:
    """When each job finished, if its outcome was filed by an earlier call, and else None.

    The answer to that call was lost. The job shows what came of it: nobody else can have ended it
    while it has not stalled. A job that was not kept is looked for in the queue's events.
    """
    found = await scripts.filed_before(
        client, keys, base=keys.base, outcomes=[part for each in sent for part in _known(each)]
    )
    gone = {
        each.claim.id.encode(): str(record[0]).encode()
        for (each, record), answer in zip(sent, found, strict=True)
        if answer == _GONE and record[0] in ("completed", "failed")
    }
    ended = await _ended_by(client, keys, gone, worker.encode()) if gone else {}
    return [
        None if answer == _NOT_FILED else answer or ended.get(each.claim.id.encode())
        for (each, _), answer in zip(sent, found, strict=True)
    ]


def _known(sent: _Sent) -> tuple[str | int, ...]:
    settled, record = sent
    job = settled.claim.work
    kind = str(record[0])
    return (kind, job.id, job.attempts_made, job.attempts_started, job.stalled_count)


async def _ended_by(
    client: Client, keys: QueueKeys, ids: dict[bytes, bytes], worker: bytes
) -> dict[bytes, bytes]:
    """When those jobs ended, as their workers say they did, whose last pickup was this worker's."""
    ended: dict[bytes, bytes] = {}
    ours: dict[bytes, bytes] = {}
    async with aclosing(newest_first(client, keys.events)) as events:
        async for place, event in events:
            id, name = event.get(b"jobId", b""), event.get(b"event")
            if id not in ids:
                continue
            if name in _ENDS:
                # One that was cancelled has failed, whatever its worker has sent.
                if name != ids[id]:
                    del ids[id]
                    continue
                ended[id] = place.partition(b"-")[0]
            elif name == b"active":
                del ids[id]
                if id in ended and event.get(b"workerId") == worker:
                    ours[id] = ended[id]
                if not ids:
                    break
    return ours

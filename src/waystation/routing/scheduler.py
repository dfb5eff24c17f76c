"""The scheduler: stands for election, and does the upkeep while it leads."""

import asyncio
import contextlib

import msgspec

from waystation.core import identity
from waystation.core.errors import NotLeader, StoreError
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.tasks import end, leave_if_cancelled
from waystation.core.shared import Shared
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.core.store.leader import Election, Term
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import describe, get_logger
from waystation.routing.keys import NAMESPACE, RoutingKeys, SchedulerKeys
from waystation.routing.upkeep import Upkeep, UpkeepOptions

_log = get_logger(__name__)


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often the leader makes its rounds, in seconds."""

    tick_s: float = 1.0
    """Delayed jobs and schedules."""
    recover_s: float = 5.0
    """Jobs of workers that fell silent."""
    mend_s: float = 30.0
    """Counts, index and registry."""
    term_ms: int = 30_000
    """How long a leader that is not heard of again keeps the lead."""
    upkeep: UpkeepOptions = UpkeepOptions()


class Scheduler(StoreClient):
    """One candidate; any number may run, and one of them leads."""

    def __init__(
        self,
        url: str | Store | None = None,
        *,
        namespace: str = NAMESPACE,
        options: SchedulerOptions | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(url)
        self.keys = RoutingKeys(namespace)
        self.name = name or identity.worker_name()
        self._options = options or SchedulerOptions()
        self._leads = False

    @property
    def leads(self) -> bool:
        """Whether this one does the upkeep now."""
        return self._leads

    async def run(self) -> None:
        """Stand for election until cancelled, and do the duties whenever elected."""
        client = (await self._connected()).hot
        election = Election(
            client,
            SchedulerKeys(self.keys.namespace),
            owner=self.name,
            ttl_ms=self._options.term_ms,
        )
        while True:
            try:
                term = await election.acquire()
                if term is not None:
                    await self._lead(client, election, term)
            except StoreError as error:
                _log.warning("duty_delayed", duty="scheduler", **describe(error))
            leave_if_cancelled()
            await asyncio.sleep(self._options.tick_s)

    async def _lead(self, client: Client, election: Election, term: Term) -> None:
        upkeep = Upkeep(client, self.keys, term, self._options.upkeep)
        options = self._options
        rounds = (
            Loop(upkeep.promote_due, every_s=options.tick_s),
            Loop(upkeep.fire_schedules, every_s=options.tick_s),
            Loop(upkeep.recover, every_s=options.recover_s),
            Loop(upkeep.reconcile, every_s=options.mend_s),
            Loop(upkeep.reindex, every_s=options.mend_s),
            Loop(upkeep.tidy, every_s=options.mend_s),
        )
        self._leads = True
        try:
            with contextlib.suppress(NotLeader):
                async with election.holding(term), asyncio.TaskGroup() as group:
                    for each in rounds:
                        group.create_task(each.run(), name=each.name)
        finally:
            self._leads = False


async def share_scheduler(store: Store, namespace: str, options: SchedulerOptions) -> None:
    """Have the one scheduler of this process run, together with others, until cancelled."""
    async with _running.using((store, namespace, options)):
        await asyncio.Event().wait()


async def _run(place: tuple[Store, str, SchedulerOptions]) -> asyncio.Task[None]:
    store, namespace, options = place
    return asyncio.create_task(Scheduler(store, namespace=namespace, options=options).run())


async def _stop(running: asyncio.Task[None]) -> None:
    await end([running])


_running = Shared(_run, _stop)

"""Operator routes that control a running room."""

from collections.abc import Awaitable, Callable

from waystation.core.errors import InvalidOption
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, MOST_BODY, ROOT, AdminContext
from waystation.waitingroom.http.visitors.status import serving_state
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.running.admission import Admission
from waystation.waitingroom.visitor import Lane


class Controls:
    """Pause, resume, faster, slower, a word to everybody."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @endpoint(f"POST {ROOT}/{{id}}/pause", fails=FAILS, scope="operator")
    async def pause(self, request: Request) -> Answer:
        """Stop admission; everybody keeps their place."""
        return await self._do(request, "pause", Control.pause)

    @endpoint(f"POST {ROOT}/{{id}}/resume", fails=FAILS, scope="operator")
    async def resume(self, request: Request) -> Answer:
        """Admit visitors again."""
        return await self._do(request, "resume", Control.resume)

    @endpoint(f"POST {ROOT}/{{id}}/queue-all", fails=FAILS, scope="operator")
    async def queue_all(self, request: Request) -> Answer:
        """Make every arrival wait and stop admission."""
        return await self._do(request, "queue-all", Control.queue_all)

    @endpoint(f"POST {ROOT}/{{id}}/drain", fails=FAILS, scope="operator")
    async def drain(self, request: Request) -> Answer:
        """Admit those in line, and let nobody join."""
        return await self._do(request, "drain", Control.drain)

    @endpoint(f"POST {ROOT}/{{id}}/close", takes=bodies.Ending, fails=FAILS, scope="admin")
    async def close(self, request: Request) -> Answer:
        """End the room; those in line read it, in words of the seller's where they are given."""
        return await self._end(request, "close", Control.close)

    @endpoint(f"POST {ROOT}/{{id}}/sold-out", takes=bodies.Ending, fails=FAILS, scope="admin")
    async def sell_out(self, request: Request) -> Answer:
        """End the room because nothing is left; those in line read that."""
        return await self._end(request, "sell-out", Control.sell_out)

    async def _end(
        self, request: Request, action: str, step: Callable[..., Awaitable[object]]
    ) -> Answer:
        await self._context.allowed(request, "admin")
        asked = await request.read(bodies.Ending, MOST_BODY)

        async def end(control: Control) -> None:
            await step(control, text=asked.text, link=asked.link)

        return await self._do(request, action, end, scope="admin")

    @endpoint(f"POST {ROOT}/{{id}}/fail-open", takes=bodies.Minutes, fails=FAILS, scope="admin")
    async def fail_open(self, request: Request) -> Answer:
        """Admit everybody who asks, for some minutes."""
        await self._context.allowed(request, "admin")
        asked = await request.read(bodies.Minutes)
        if asked.minutes > bodies.MOST_OPEN_MINUTES:
            raise InvalidOption(f"minutes must be at most {bodies.MOST_OPEN_MINUTES:g}")

        async def open_up(control: Control) -> None:
            await control.fail_open(round(asked.minutes * 60))

        return await self._do(request, "fail-open", open_up, scope="admin")

    @endpoint(f"POST {ROOT}/{{id}}/rate", takes=bodies.Rate, fails=FAILS, scope="operator")
    async def rate(self, request: Request) -> Answer:
        """Change the admission rate, at once or over a ramp."""
        await self._context.allowed(request, "operator")
        asked = await request.read(bodies.Rate)

        async def set_rate(control: Control) -> None:
            await control.set_rate(asked.new_users_per_minute / 60, ramp=asked.ramp_seconds)

        return await self._do(request, "rate", set_rate)

    @endpoint(f"POST {ROOT}/{{id}}/message", takes=bodies.Message, fails=FAILS, scope="operator")
    async def message(self, request: Request) -> Answer:
        """Show a message to all visitors, or remove it."""
        await self._context.allowed(request, "operator")
        asked = await request.read(bodies.Message, MOST_BODY)
        if not 0 <= asked.minutes <= bodies.LONGEST_MINUTES:
            raise InvalidOption(f"minutes must be 0 to {bodies.LONGEST_MINUTES}")

        async def tell(control: Control) -> None:
            now_ms = self._context.clock.now_ms()
            until = now_ms + round(asked.minutes * 60_000) if asked.minutes else 0
            await control.show_message(asked.text, level=asked.level, expires_ms=until)

        return await self._do(request, "message", tell)

    @endpoint(f"POST {ROOT}/{{id}}/reset", takes=bodies.Confirm, fails=FAILS, scope="admin")
    async def reset(self, request: Request) -> Answer:
        """Revoke all tokens, confirmed by the room's name."""
        await self._context.allowed(request, "admin")
        asked = await request.read(bodies.Confirm)
        if asked.confirm != request.slots["id"]:
            raise Problem(422, Code.NOT_CONFIRMED, "confirm must be the name of the room")
        return await self._do(request, "reset", Control.revoke_everything, scope="admin")

    @endpoint(f"POST {ROOT}/{{id}}/admit", takes=bodies.Admit, fails=FAILS, scope="operator")
    async def admit(self, request: Request) -> Answer:
        """Admit some visitors now, regardless of the rate."""
        room, who = await self._context.allowed(request, "operator")
        asked = await request.read(bodies.Admit)
        lane = None if asked.lane is None else Lane(asked.lane)
        called = await Admission(room).admit_now(asked.count, lane=lane)
        after = {"called": len(called.called), "waiting": called.waiting}
        await self._context.note(who, "admit", room, before=None, after=after)
        return answer(after)

    async def _do(
        self,
        request: Request,
        action: str,
        step: Callable[[Control], Awaitable[object]],
        *,
        scope: str = "operator",
    ) -> Answer:
        room, who = await self._context.allowed(request, scope)
        before = await room.state()
        await step(Control(room))
        after = await room.state()
        await self._context.note_change(who, action, room, before, after)
        return answer({"serving_state": serving_state(after), "version": after.version})

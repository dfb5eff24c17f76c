"""Routes to verify the draw."""

from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.queries import whole
from waystation.waitingroom.http import bodies
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.operating.schedule import next_draw
from waystation.waitingroom.rooms import Rooms

LAST = 999_999_999


class Fairness:
    """Hands out the commitment before the draw, and everything after it."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    @endpoint(
        "GET /api/v1/queues/{id}/fairness", gives={200: bodies.FairnessBody}, fails=(404, 409)
    )
    async def fairness(self, request: Request) -> Answer:
        """The data to verify the draw."""
        room, state = await self._rooms.visit(request.slots["id"])
        lottery = Lottery(room)
        commitment = await lottery.commitment()
        if commitment is None:
            planned = await next_draw(room)
            return answer(
                bodies.FairnessBody(
                    method="lottery" if planned else state.options.queueing_method.value,
                    commit=planned.commitment if planned else None,
                    witness=(planned.witness or None) if planned else None,
                )
            )
        witness = await lottery.witness() or None
        if state.phase != "open" or not await lottery.is_held():
            body = bodies.FairnessBody(method="lottery", commit=commitment, witness=witness)
            if closed := await lottery.entrants():
                body.entrants, body.n = closed
            return answer(body)
        proof = await lottery.proof()
        return answer(
            bodies.FairnessBody(
                method="lottery",
                commit=proof.commitment,
                seed=proof.seed,
                beacon=proof.beacon,
                n=proof.count,
                opened_us=proof.opened_us,
                digest=proof.digest,
                proof_url=f"/api/v1/queues/{room.name}/fairness/order",
                witness=witness,
                revealed=proof.revealed if witness else None,
                entrants=proof.entrants or None,
            )
        )

    @endpoint(
        "POST /api/v1/queues/{id}/fairness/reveal",
        takes=bodies.Reveal,
        gives={200: bodies.Revealed},
        fails=(400, 404, 409, 413, 415, 422, 503),
    )
    async def reveal(self, request: Request) -> Answer:
        """Reveal the secret of the draw's witness, once the list of all who take part is closed."""
        room = await self._rooms.find(request.slots["id"])
        asked = await request.read(bodies.Reveal)
        return answer(bodies.Revealed(mixed=await Lottery(room).reveal(asked.secret)))

    @endpoint(
        "GET /api/v1/queues/{id}/fairness/order",
        query={"first": {"type": "integer", "minimum": 0, "maximum": LAST}},
        fails=(400, 404),
    )
    async def order(self, request: Request) -> Answer:
        """The drawn order, page by page."""
        room = await self._rooms.find(request.slots["id"])
        first = whole(request, "first", 0, least=0, most=LAST)
        return answer({"first": first, "ids": await Lottery(room).drawn(first)})

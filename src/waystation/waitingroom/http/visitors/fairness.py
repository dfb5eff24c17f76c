"""What anybody needs to check the draw."""

from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.context import Desk
from waystation.waitingroom.http.framework.endpoints import endpoint
from waystation.waitingroom.http.framework.exchange import Answer, Request, answer
from waystation.waitingroom.http.framework.problems import Problem
from waystation.waitingroom.lottery import Lottery
from waystation.waitingroom.rooms import name_of


class Fairness:
    """Hands out the commitment before the draw, and everything after it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @endpoint(
        "GET /api/v1/queues/{id}/fairness", gives={200: bodies.FairnessBody}, fails=(404, 409)
    )
    async def fairness(self, request: Request) -> Answer:
        """What it takes to check the draw."""
        room = await self.desk.room(request)
        lottery = Lottery(room)
        commitment = await lottery.commitment()
        pulse = await self.desk.pulse(room)
        if commitment is None:
            return answer(bodies.FairnessBody(method=pulse.options.queueing_method.value))
        if pulse.phase != "open":
            return answer(bodies.FairnessBody(method="lottery", commit=commitment))
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
                proof_url=f"/api/v1/queues/{name_of(room.queue_id)}/fairness/order",
            )
        )

    @endpoint(
        "GET /api/v1/queues/{id}/fairness/order",
        query={"first": {"type": "integer", "minimum": 0, "maximum": 999_999_999}},
        fails=(400, 404),
    )
    async def order(self, request: Request) -> Answer:
        """The order that was drawn, page by page."""
        room = await self.desk.room(request)
        first = request.query.get("first", "0")
        if not first.isdigit() or len(first) > 9:
            raise Problem(400, "MALFORMED", "first must be a number")
        return answer({"first": int(first), "ids": await Lottery(room).drawn(int(first))})

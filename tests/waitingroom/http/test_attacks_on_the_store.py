"""What becomes of visitors when the store dies under them: nothing worse than waiting."""

from tests.waitingroom.http import harness
from waystation.core.store import embedded


async def test_50_a_store_that_dies_in_between_admits_nobody_twice_and_loses_nobody() -> None:
    with embedded.ephemeral({"appendonly": "yes", "appendfsync": "always"}) as server:
        async with harness.service(server.url) as service:
            called, waiting = service.visitor(), service.visitor("10.1.1.2")
            await called.join()
            await waiting.join()
            await service.admission.admit_now(1)
            server.kill()
            answer = await called.claim()
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert "redis" not in answer.text.lower()
            server.restart()
            begun = [await called.claim() for _ in range(3)]
            while any(each.status_code == 503 for each in begun):
                begun = [await called.claim() for _ in range(3)]
            assert {each.json()["session_id"] for each in begun} == {begun[0].json()["session_id"]}
            assert (await waiting.status())["people_ahead"] == 0
            seen = await service.room.state()
            assert (seen.inside, seen.called, seen.waiting) == (1, 0, 1)

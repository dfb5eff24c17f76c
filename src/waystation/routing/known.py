"""Whether anybody has heard of a type of job."""

from waystation.core import codec
from waystation.core.store import faults
from waystation.core.store.script import Client
from waystation.routing.keys import RoutingKeys
from waystation.routing.registry import registered

PER_CALL = 1_000


async def knows(client: Client, keys: RoutingKeys, type: str) -> bool:
    """Whether a worker handles jobs of a type, or a job of it has not ended."""
    workers = await registered(client, keys)
    if any(type in worker.types for worker in workers):
        return True
    cursor = 0
    while True:
        with faults.translated():
            cursor, found = await client.execute_command(
                "HSCAN", keys.routes, cursor, "COUNT", PER_CALL
            )
        if any(_type_of(route) == type for route in found[1::2]):
            return True
        if (cursor := int(cursor)) == 0:
            return False


def _type_of(route: bytes) -> str:
    # Behind the lane stands the signature, a list that begins with the type.
    return codec.decode(route[1:])[0]

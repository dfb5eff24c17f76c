"""What a scene is."""

from typing import Protocol

from examples.ticket_sale.account import Account
from examples.ticket_sale.stage import Stage


class Scene(Protocol):
    """A module that plays one part of the sale."""

    TITLE: str
    PART: str
    """The part of waystation that it shows."""

    async def run(self, stage: Stage) -> Account:
        """Play the scene and give account."""
        ...

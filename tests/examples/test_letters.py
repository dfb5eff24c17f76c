"""The letters of the demo are all accounted for."""

import io

import pytest
from rich.console import Console

from examples.ticket_sale import letters
from examples.ticket_sale.stage import Stage


@pytest.mark.slow
async def test_every_letter_is_read_or_accounted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "LETTERS", 200)
    account = await letters.run(Stage(Console(file=io.StringIO(), width=100)))
    assert account.balanced
    assert account.ends["were read"] == 200 - letters.LOST_IN_THE_POST
    assert account.ends["had vanished when their turn came"] == letters.LOST_IN_THE_POST

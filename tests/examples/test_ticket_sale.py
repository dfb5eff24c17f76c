"""The demo counts honestly: it ends well only if nothing was lost."""

import io

import msgspec
import pytest
from rich.console import Console

from examples.ticket_sale import __main__ as sale
from examples.ticket_sale import box_office
from examples.ticket_sale.account import Account
from examples.ticket_sale.stage import Stage

FAIR = Account(title="Fair", what="tickets", came_in=10, ends={"sold": 7, "refused": 3})


class Scripted:
    """A scene that gives the account it was made with."""

    TITLE: str = "Scripted"
    PART: str = "a scene of a test"

    def __init__(self, account: Account) -> None:
        self._account = account

    async def run(self, stage: Stage) -> Account:
        return self._account


@pytest.fixture
def page() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def stage(page: io.StringIO) -> Stage:
    return Stage(Console(file=page, width=100))


async def test_the_box_office_accounts_for_every_purchase(
    stage: Stage, page: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box_office, "PURCHASES", 300)
    monkeypatch.setattr(box_office, "BANK_S", 0.002)

    account = await box_office.run(stage)

    assert account.came_in == 300
    assert account.balanced
    assert account.ends["ended with a ticket"] > 250
    assert "300 of 300 purchases settled" in page.getvalue()


@pytest.mark.parametrize(
    ("account", "code"),
    [
        (FAIR, 0),
        (msgspec.structs.replace(FAIR, came_in=11), 1),
        (msgspec.structs.replace(FAIR, came_in=9), 1),
        (msgspec.structs.replace(FAIR, twice=1), 1),
    ],
    ids=["fair", "one lost", "one too many", "one twice"],
)
async def test_the_exit_code_tells_whether_it_adds_up(
    account: Account, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sale, "SCENES", [Scripted(FAIR), Scripted(account)])
    assert await sale.main() == code


def test_a_loss_is_shown(stage: Stage, page: io.StringIO) -> None:
    stage.close([FAIR, msgspec.structs.replace(FAIR, title="Unfair", came_in=11)])
    assert "The account does not add up" in page.getvalue()
    rows = {line.split()[0]: line.split() for line in page.getvalue().splitlines() if line.strip()}
    assert rows["Fair"] == ["Fair", "10", "tickets", "10", "0", "0"]
    assert rows["Unfair"] == ["Unfair", "11", "tickets", "10", "1", "0"]


def test_a_scene_ends_with_what_became_of_everything(stage: Stage, page: io.StringIO) -> None:
    stage.show_account(FAIR)
    assert page.getvalue().split() == ["10", "tickets", "came", "in", "7", "sold", "3", "refused"]

"""The demo counts honestly: it ends well only if nothing was lost."""

import io
from types import ModuleType

import msgspec
import pytest
from rich.console import Console

from waystation.cli.demo import command, letters, people, printing, purchases
from waystation.cli.demo.stage import Account, Stage
from waystation.errors import SparkNotStarted

FAIR = Account(title="Fair", what="tickets", came_in=10, ends={"sold": 7, "refused": 3})
SIZES = {
    purchases: "PURCHASES",
    printing: "TICKETS",
    letters: "LETTERS",
    people: "VISITORS",
}


class Scripted:
    """A scene that gives the account it was made with."""

    TITLE = "Scripted"
    PART = "a scene of a test"

    def __init__(self, account: Account) -> None:
        self._account = account

    async def run(self, stage: Stage, url: str) -> Account:
        return self._account


class Refused(Scripted):
    """A scene for which Spark does not start."""

    async def run(self, stage: Stage, url: str) -> Account:
        raise SparkNotStarted("Java [17] is missing")

    def keep_all(self, url: str) -> None:
        pass


@pytest.fixture
def page() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def stage(page: io.StringIO) -> Stage:
    return Stage(Console(file=page, width=100))


@pytest.mark.slow
@pytest.mark.parametrize("scene", SIZES, ids=SIZES.values())
async def test_a_scene_accounts_for_everything(
    scene: ModuleType,
    stage: Stage,
    page: io.StringIO,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scene, SIZES[scene], 300)

    account = await scene.run(stage, redis_url)

    assert account.came_in == 300
    assert account.balanced, account
    assert "300 of 300" in page.getvalue()


@pytest.mark.parametrize(
    ("account", "balanced"),
    [
        (FAIR, True),
        (msgspec.structs.replace(FAIR, came_in=11), False),
        (msgspec.structs.replace(FAIR, came_in=9), False),
        (msgspec.structs.replace(FAIR, twice=1), False),
    ],
    ids=["fair", "one lost", "one too many", "one twice"],
)
async def test_without_spark_it_says_what_is_missing_and_whether_the_rest_adds_up(
    account: Account,
    balanced: bool,
    stage: Stage,
    page: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "SCENES", [Scripted(FAIR), Scripted(account)])
    monkeypatch.setattr(command, "_history", lambda: None)
    assert await command.play(stage) is balanced
    assert "With waystation[spark]" in page.getvalue()


def test_a_loss_is_shown(stage: Stage, page: io.StringIO) -> None:
    stage.close([FAIR, msgspec.structs.replace(FAIR, title="Unfair", came_in=11)])
    assert "The account does not add up" in page.getvalue()
    rows = {line.split()[0]: line.split() for line in page.getvalue().splitlines() if line.strip()}
    assert rows["Fair"] == ["Fair", "10", "tickets", "10", "0", "0"]
    assert rows["Unfair"] == ["Unfair", "11", "tickets", "10", "1", "0"]


def test_a_scene_ends_with_what_became_of_everything(stage: Stage, page: io.StringIO) -> None:
    stage.show_account(FAIR)
    assert page.getvalue().split() == ["10", "tickets", "came", "in", "7", "sold", "3", "refused"]


async def test_where_spark_fails_the_account_of_the_others_is_shown(
    stage: Stage, page: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SCENES", [Scripted(FAIR)])
    monkeypatch.setattr(command, "_history", lambda: Refused(FAIR))

    assert not await command.play(stage)

    assert "Spark has not counted it: Java [17] is missing" in page.getvalue()
    assert "Nothing was lost and nothing happened twice." in page.getvalue()

"""Tests of the shop: `pytest examples/bookshop`. Weeks pass in them, and nobody waits."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx2 import ASGITransport, AsyncClient
from sqlalchemy.orm import Session

from examples.bookshop import warehouse
from examples.bookshop.app import app
from examples.bookshop.database import Base, Book, engine
from examples.bookshop.tasks import Mailer, open_mailer, tasks
from waystation.testing import Sandbox


class Letterbox(Mailer):
    """Keeps what would have been sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, to: str, text: str) -> None:
        self.sent.append(text)


@pytest.fixture
def letters() -> Iterator[list[str]]:
    letterbox = Letterbox()
    with tasks.override(open_mailer, lambda: letterbox):
        yield letterbox.sent


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of its own, with three copies of one book."""
    monkeypatch.chdir(tmp_path)
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Book(isbn="978-0", title="Emma", stock=3))


@pytest.fixture
def box(waystation_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    monkeypatch.setenv("WAYSTATION_STORE__URL", waystation_sandbox.url)
    waystation_sandbox.handle(tasks)
    return waystation_sandbox


@pytest.fixture
async def shop(shelf: None, box: Sandbox, letters: list[str]) -> AsyncIterator[AsyncClient]:
    """The application, as a browser sees it."""
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app=app), base_url="http://shop") as client,
    ):
        yield client


async def order(shop: AsyncClient, copies: int = 2) -> str:
    wanted = {"isbn": "978-0", "copies": copies, "email": "ada@example.org"}
    return str((await shop.post("/orders", json=wanted)).json()["id"])


async def state(shop: AsyncClient, id: str) -> str:
    return str((await shop.get(f"/orders/{id}")).json()["state"])


def stock() -> int:
    with Session(engine) as session:
        return session.get_one(Book, "978-0").stock


async def test_a_paid_order_is_shipped_and_asked_about_two_weeks_later(
    shop: AsyncClient, box: Sandbox, letters: list[str]
) -> None:
    id = await order(shop)
    await box.run_all()
    assert (await state(shop, id), stock()) == ("reserved", 1)

    assert (await shop.post(f"/orders/{id}/payment")).status_code == 202
    await box.run_all()
    assert await state(shop, id) == "shipped"

    await box.advance(days=14)
    await box.run_all()
    assert [text.split()[-1] for text in letters] == ["pay.", f"parcel-{id[:8]}.", "books?"]
    (job,) = await box.added("orders", "fulfil")
    assert job.result == f"parcel-{id[:8]}"


async def test_books_that_nobody_pays_go_back_to_the_shelf(shop: AsyncClient, box: Sandbox) -> None:
    id = await order(shop)
    await box.run_all()
    await box.advance(days=2)
    await box.run_all()
    assert (await state(shop, id), stock()) == ("cancelled", 3)
    (job,) = await box.added("orders")
    assert job.failed_reason == "not paid within two days"


async def test_a_customer_may_cancel(shop: AsyncClient, box: Sandbox) -> None:
    id = await order(shop)
    await box.run_all()
    assert (await shop.delete(f"/orders/{id}")).status_code == 202
    await box.run_all()
    assert (await state(shop, id), stock()) == ("cancelled", 3)
    assert (await shop.delete(f"/orders/{id}")).status_code == 409


async def test_more_than_there_is_cannot_be_reserved(
    shop: AsyncClient, box: Sandbox, letters: list[str]
) -> None:
    id = await order(shop, copies=4)
    await box.run_all()
    assert (await state(shop, id), stock(), letters) == ("new", 3, [])


async def test_an_attempt_that_fails_takes_nothing_twice(shop: AsyncClient, box: Sandbox) -> None:
    box.fail("orders", "fulfil", attempt=1)
    box.fail("mail", "mail", attempt=1)
    id = await order(shop)
    for _ in range(3):
        await box.run_all()
        await box.advance(minutes=1)
    assert (await state(shop, id), stock()) == ("reserved", 1)
    await box.assert_added("mail", "mail", {"to": "ada@example.org"}, count=1)


@pytest.mark.parametrize("wrong", [{"isbn": "978-1"}, {"copies": 0}])
async def test_what_cannot_be_ordered_leaves_no_job(
    shop: AsyncClient, box: Sandbox, wrong: dict[str, Any]
) -> None:
    wanted = {"isbn": "978-0", "email": "ada@example.org", **wrong}
    assert (await shop.post("/orders", json=wanted)).status_code in (404, 422)
    assert await box.added("orders") == []


def test_a_delivery_counts_once(shelf: None) -> None:
    warehouse.receive("D-1", "978-0", 12)
    warehouse.receive("D-1", "978-0", 12)
    assert stock() == 15

"""The warehouse. Each function is one transaction, and calling it twice is calling it once."""

from sqlalchemy import update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.orm import Session

from examples.bookshop.database import Book, Delivery, Order, engine
from waystation.errors import Unrecoverable


def reserve(order_id: str) -> None:
    """Take the books of an order from the shelf."""
    with Session(engine) as session, session.begin():
        order = _change(session, order_id, "new", "reserved")
        if order is not None and not _shelve(session, order.isbn, -order.copies):
            # Nobody would be helped by trying again.
            raise Unrecoverable(f"fewer than {order.copies} left of {order.isbn}")


def release(order_id: str) -> None:
    """Put the books of an order back, unless they are on their way."""
    with Session(engine) as session, session.begin():
        if order := _change(session, order_id, "reserved", "cancelled"):
            _shelve(session, order.isbn, order.copies)


def ship(order_id: str) -> str:
    """Send the books; returns the number of the parcel."""
    with Session(engine) as session, session.begin():
        _change(session, order_id, "reserved", "shipped")
    return f"parcel-{order_id[:8]}"


def receive(number: str, isbn: str, copies: int) -> None:
    """Put a delivery on the shelf."""
    with Session(engine) as session, session.begin():
        delivery = insert(Delivery).values(number=number, isbn=isbn, copies=copies)
        if session.scalar(delivery.on_conflict_do_nothing().returning(Delivery.number)):
            _shelve(session, isbn, copies)


def _change(session: Session, order_id: str, before: str, after: str) -> Order | None:
    """Move an order from one state to the next; None when it is not in that state."""
    order = update(Order).where(Order.id == order_id, Order.state == before)
    return session.scalar(order.values(state=after).returning(Order))


def _shelve(session: Session, isbn: str, copies: int) -> bool:
    """Add books to the shelf, or take them; False when there are too few."""
    book = update(Book).where(Book.isbn == isbn, Book.stock + copies >= 0)
    left = session.scalar(book.values(stock=Book.stock + copies).returning(Book.stock))
    return left is not None

"""The database: books on the shelf, orders, deliveries, and the outbox of their jobs."""

import sqlite3

from sqlalchemy import NullPool, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from waystation.integrations.sqlalchemy import Outbox


class Base(DeclarativeBase):
    """The tables of the shop."""


class Book(Base):
    """A book, and how many of it are on the shelf."""

    __tablename__ = "books"

    isbn: Mapped[str] = mapped_column(primary_key=True)
    title: Mapped[str]
    stock: Mapped[int]


class Order(Base):
    """An order: new, reserved, shipped or cancelled."""

    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(primary_key=True)
    isbn: Mapped[str]
    copies: Mapped[int]
    email: Mapped[str]
    state: Mapped[str] = mapped_column(default="new")


class Delivery(Base):
    """A box of books that has arrived."""

    __tablename__ = "deliveries"

    number: Mapped[str] = mapped_column(primary_key=True)
    isbn: Mapped[str]
    copies: Mapped[int]


outbox = Outbox(Base.metadata)
# A file of the directory in which it is opened, which a test may change.
engine = create_engine(
    "sqlite://", creator=lambda: sqlite3.connect("bookshop.db", timeout=30), poolclass=NullPool
)

"""Add a book to the shop: `python -m examples.bookshop.stock 978-0 Emma 3`."""

import sys

from sqlalchemy.orm import Session

from examples.bookshop.database import Base, Book, engine


def main(isbn: str, title: str, copies: int) -> None:
    """Put so many copies of a book on the shelf."""
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.merge(Book(isbn=isbn, title=title, stock=copies))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

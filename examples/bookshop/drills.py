"""`waystation drill examples.bookshop.drills`: is a delivery counted once, whatever happens?"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from examples.bookshop.database import Base, Book, engine
from examples.bookshop.tasks import receive
from waystation.testing import Drill


def open_shop() -> None:
    """An empty shelf for one book."""
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Book(isbn="978-0", title="Emma", stock=0))


def shelf() -> list[tuple[str, int]]:
    """What is on the shelf."""
    with Session(engine) as session:
        return [(book.isbn, book.stock) for book in session.scalars(select(Book))]


drills = [Drill(receive.bind("D-1", "978-0", 12), setup=open_shop, effects=shelf)]

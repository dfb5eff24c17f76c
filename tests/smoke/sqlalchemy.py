"""A job is a row of a transaction, then a job of its queue."""

from sqlalchemy import MetaData, create_engine

from waystation.integrations.sqlalchemy import Outbox
from waystation.sync import Queue

metadata = MetaData()
outbox = Outbox(metadata)
engine = create_engine("sqlite:///outbox.db")
metadata.create_all(engine)
with engine.begin() as connection:
    outbox.add(connection, "ordered", "send", {"to": "ada"})
outbox.move(engine)
with Queue("ordered") as queue:
    assert queue.count() == 1

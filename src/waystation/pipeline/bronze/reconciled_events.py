"""Reconciled events: removals that a snapshot has found, added to the table `events`.

BullMQ drains and cleans without events. A job that was removed so would stay open for ever, and
every refresh would look for it.
"""

import datetime as dt
from collections.abc import Sequence

from waystation.core.events import VERSION, EventName
from waystation.pipeline.silver.steps import Subject
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import EVENTS

STREAM = "waystation:looks"
"""The stream of these events; it does not exist in the store."""
APPLICATION = "looks"


def add_removals(root: str, subjects: Sequence[Subject], at: dt.datetime) -> None:
    """Add an event for each job that was found removed at this instant."""
    if not subjects:
        return
    millis = int(at.timestamp() * 1000)
    rows = [
        {
            "line": line,
            "queue": queue,
            "stream": STREAM,
            "entry_id": f"{millis}-{turn}",
            "seq": turn,
            "told_at": at,
            "at": at,
            "event": EventName.REMOVED.value,
            "subject": subject,
            "fields": [("found", "neither its id nor its data")],
            "version": VERSION,
            "date": at.date(),
        }
        for turn, (line, queue, subject) in enumerate(subjects)
    ]
    path = EVENTS.path(root)
    with PartWriter(path, EVENTS.schema, EVENTS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(EVENTS.schema)))
    batch = BatchId(APPLICATION, millis)
    delta.commit(path, EVENTS.schema, writer.parts, batch, partitions=EVENTS.partitions)

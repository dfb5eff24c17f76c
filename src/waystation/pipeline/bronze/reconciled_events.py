"""What nobody told and a look found out, kept among the events so that every fold knows it.

BullMQ drains and cleans without a word. A job that was seen to be taken out would stay open for
ever, and would be looked for in every round.
"""

import datetime as dt
from collections.abc import Sequence

from waystation.core.events import VERSION, EventName
from waystation.pipeline.silver.steps import Who
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, schema_of
from waystation.pipeline.storage.delta import Identity
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.tables import EVENTS

STREAM = "waystation:looks"
"""What these events have in place of a stream's key."""
APPLICATION = "looks"


def removed(root: str, subjects: Sequence[Who], at: dt.datetime) -> None:
    """Keep that these were gone without a word when somebody looked at that instant."""
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
    place = EVENTS.place(root)
    with PartWriter(place, EVENTS.schema, EVENTS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(EVENTS.schema)))
    identity = Identity(APPLICATION, millis)
    delta.commit(place, EVENTS.schema, writer.parts, identity, partitions=EVENTS.partitions)

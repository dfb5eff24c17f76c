"""The ledger: every job that was added has ended, is in the queue, was removed, or is lost.

The snapshot of the queues must be taken before the events are read: then a job that is not in it
had ended by then, and its end is among the events. A job with neither is lost.
"""

LOST = "lost"
"""The fate of a job that is neither in its queue nor ended nor removed."""
EXAMPLES = 20
ARRIVAL = "date_trunc('hour', coalesce(added_at, to_utc_timestamp(`date`, 'UTC')))"
"""The hour in which an item was added; the first hour of its day if that is unknown."""

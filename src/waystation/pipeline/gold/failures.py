"""Failures: the most frequent signatures of each queue, and whether retries help."""

from collections.abc import Mapping
from typing import Any

from waystation.pipeline.silver.fingerprints import with_signature
from waystation.pipeline.storage.sql import Frame, query, to_arrow

EXAMPLES = 5
MOST_KINDS = 100
"""Signatures of one queue that have a row of their own: the most frequent ones."""
OTHER = "other"
"""The fingerprint of the row for all others."""

_KINDS = """
with ranked as (
    select *,
           row_number() over (partition by line, queue, fingerprint<, date> order by subject)
               as rank
    from {failed}
)
select line, queue, fingerprint<, date as day>,
       min(reason) as reason,
       min(error_class) as error_class,
       min(first_at) as first_at,
       max(last_at) as last_at,
       cast(sum(failed) as bigint) as attempts,
       count(*) as subjects,
       array_sort(collect_list(case when rank <= <examples> then subject end)) as examples,
       cast(sum(retried) as bigint) as retried,
       count_if(recovered) as recovered,
       count_if(retried > 0) as tried
from ranked
group by line, queue, fingerprint<, date>
"""

# Messages whose values cannot be told from words make a signature each; most of these occur once
# and end up in the row for all others.
_NAMED = """
with counted as (
    select line, queue, fingerprint, sum(attempts) as many
    from {kinds}
    group by line, queue, fingerprint
), ranked as (
    select line, queue, fingerprint,
           row_number() over (partition by line, queue order by many desc, fingerprint) as rank,
           count(*) over (partition by line, queue) as all_kinds
    from counted
), named as (
    select seen.* exclude (fingerprint),
           case when rank <= <most> then seen.fingerprint else '<other>' end as fingerprint,
           case when rank <= <most> then 1 else all_kinds - <most> end as kinds
    from {kinds} as seen
    join ranked on seen.line = ranked.line and seen.queue = ranked.queue
                   and seen.fingerprint = ranked.fingerprint
)
select line, queue, fingerprint,
       min(reason) as reason,
       min(error_class) as error_class,
       max(kinds) as kinds,
       min(first_at) as first_at,
       max(last_at) as last_at,
       cast(sum(attempts) as bigint) as attempts,
       cast(sum(subjects) as bigint) as subjects,
       list_sort(list_distinct(flatten(array_agg(examples))))[:<examples>] as examples,
       cast(sum(retried) as bigint) as retried,
       cast(sum(recovered) as bigint) as recovered,
       cast(sum(tried) as bigint) as tried
from named
group by line, queue, fingerprint
"""

_ROWS = """
select line, queue, fingerprint,
       case when fingerprint <> '<other>' then signature end as signature,
       case when fingerprint <> '<other>' then error_class end as error_class,
       first_at, last_at, attempts, subjects,
       attempts / greatest(1e0, (unix_seconds(last_at) - unix_seconds(first_at)) / 3600e0)
           as per_hour,
       examples, retried, recovered,
       case when tried > 0 then recovered / tried end as retry_helps,
       kinds
from {kinds}
"""


def kinds(failed: Frame, *, by_day: bool = False) -> Frame:
    """One row for each signature of each queue, from failed items; with `by_day`, for each day."""
    text = _KINDS.replace("<examples>", str(EXAMPLES))
    for part in (", date as day", ", date"):
        text = text.replace(f"<{part}>", part.replace("date", "`date`") if by_day else "")
    return query(text, failed=failed)


def failures(seen: Frame, *, most: int = MOST_KINDS) -> Frame:
    """One row for each of the most frequent signatures of each queue, and one for the rest.

    They are added up from kinds, where a signature may have several rows. Every attempt that failed
    is counted in one row; a job that failed in several ways, in each of theirs.
    """
    named = query(_filled(_NAMED, most), kinds=to_arrow(seen))
    return query(_filled(_ROWS, most), kinds=with_signature(named))


def _filled(text: str, most: int) -> str:
    for name, value in {"most": most, "other": OTHER, "examples": EXAMPLES}.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def label(row: Mapping[str, Any]) -> str:
    """The text of a row in reports."""
    if row["fingerprint"] == OTHER:
        return f"{row['kinds']:,} other kinds of failure"
    return row["signature"] or "no error message"

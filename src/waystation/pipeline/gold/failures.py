"""Failures: the most frequent signatures of each queue, and whether retries help."""

from collections.abc import Mapping
from typing import Any

from waystation.pipeline.silver.fingerprints import with_signature
from waystation.pipeline.storage.sql import Frame, query

EXAMPLES = 5
MOST_KINDS = 100
"""Signatures of one queue that have a row of their own: the most frequent ones."""
OTHER = "other"
"""The fingerprint of the row for all others."""
COLUMNS = (
    *("line", "queue", "subject", "fingerprint", "error_class", "reason", "first_at", "last_at"),
    *("failed", "retried", "recovered"),
)
"""Columns of failed items that failures are computed from."""

# Messages whose values cannot be told from words make a signature each; most of these occur once
# and end up in the row for all others.
_KINDS = """
with counted as (
    select line, queue, fingerprint, sum(failed) as many
    from {failed}
    group by line, queue, fingerprint
), ranked as (
    select line, queue, fingerprint,
           row_number() over (partition by line, queue order by many desc, fingerprint) as rank,
           count(*) over (partition by line, queue) as all_kinds
    from counted
), named as (
    select lives.line, lives.queue, subject, failed, retried, recovered, first_at, last_at,
           reason, error_class,
           case when rank <= <most> then lives.fingerprint else '<other>' end as fingerprint,
           case when rank <= <most> then 1 else all_kinds - <most> end as kinds
    from {failed} as lives
    join ranked on lives.line = ranked.line and lives.queue = ranked.queue
                   and lives.fingerprint = ranked.fingerprint
), subjects as (
    select line, queue, subject, fingerprint,
           sum(failed) as attempts,
           sum(retried) as retried,
           count_if(recovered) > 0 as recovered,
           min(first_at) as first_at,
           max(last_at) as last_at,
           min(reason) as reason,
           min(error_class) as error_class,
           max(kinds) as kinds
    from named
    group by line, queue, subject, fingerprint
), fates as (
    select *,
           row_number() over (partition by line, queue, fingerprint order by subject) as rank
    from subjects
)
select line, queue, fingerprint,
       min(reason) as reason,
       min(error_class) as error_class,
       max(kinds) as kinds,
       min(first_at) as first_at,
       max(last_at) as last_at,
       cast(sum(attempts) as bigint) as attempts,
       count(*) as subjects,
       array_sort(collect_list(case when rank <= <examples> then subject end)) as examples,
       cast(sum(retried) as bigint) as retried,
       count_if(recovered) as recovered,
       count_if(retried > 0) as tried
from fates
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


def failures(failed: Frame, *, most: int = MOST_KINDS) -> Frame:
    """One row for each of the most frequent signatures of each queue, and one for the rest.

    They are computed from failed items. Every attempt that failed is counted in one of them.
    """
    kinds = query(_filled(_KINDS, most), failed=failed)
    return query(_filled(_ROWS, most), kinds=with_signature(kinds))


def _filled(text: str, most: int) -> str:
    for name, value in {"most": most, "other": OTHER, "examples": EXAMPLES}.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def label(row: Mapping[str, Any]) -> str:
    """The text of a row in reports."""
    if row["fingerprint"] == OTHER:
        return f"{row['kinds']:,} other kinds of failure"
    return row["signature"] or "no error message"

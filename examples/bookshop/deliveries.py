"""A script without asyncio: `python -m examples.bookshop.deliveries deliveries.csv`."""

import csv
import sys
from pathlib import Path

from examples.bookshop.tasks import receive


def main(path: Path) -> None:
    """Add a job for each line of a file, and wait until all books are on the shelf."""
    with path.open(newline="") as file:
        calls = [
            receive.with_options(job_id=row["number"]).bind(
                row["number"], row["isbn"], int(row["copies"])
            )
            for row in csv.DictReader(file)
        ]
    for job in receive.sync.add_many(calls):
        job.result(timeout=60)
        print(job.id, "is on the shelf")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Files of a table as an Arrow dataset, with the partitions that their folders name."""

from collections.abc import Sequence
from typing import Any

from waystation.pipeline.storage.arrow import dataset, pa
from waystation.pipeline.storage.filesystems import filesystem


def dataset_of(path: str, columns: Any, names: Sequence[str], partitions: Sequence[str]) -> Any:
    """Files of the table at a path; a column that a file of an older version lacks is null."""
    files, root = filesystem(path)
    by = pa.schema([columns.field(name) for name in partitions])
    return dataset.dataset(
        [f"{root}/{name}" for name in names],
        schema=columns,
        format="parquet",
        filesystem=files,
        partitioning=dataset.partitioning(by, flavor="hive") if by.names else None,
        partition_base_dir=root,
    )

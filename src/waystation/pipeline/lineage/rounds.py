"""OpenLineage events of rounds: the streams that were read, and the rows that each table got."""

import datetime as dt
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    documentation_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
    storage_dataset,
)
from openlineage.client.uuid import generate_new_uuid

import waystation
from waystation.core.failure import message_of
from waystation.core.store.connection.address import Kind, parse
from waystation.core.telemetry.logs import describe, get_logger
from waystation.pipeline.lineage.sender import Sender
from waystation.pipeline.products import product_tables
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.storage import changes
from waystation.pipeline.storage.places import is_remote
from waystation.pipeline.tables import Table, every

NAMESPACE_VARIABLE = "OPENLINEAGE_NAMESPACE"
"""Environment variable with the namespace of the job, as for other programs that send events."""
JOB = "pipeline.run"
PRODUCER = f"https://github.com/waystation/waystation/tree/v{waystation.__version__}"

_OURS: dict[str, Any] = {"producer": PRODUCER}
_log = get_logger(__name__)


@contextmanager
def told_to(to: str, *, root: str, url: str) -> Generator["Rounds"]:
    """Rounds that are told to a server or a file."""
    sender = Sender(to)
    try:
        yield Rounds(sender, root, url)
    finally:
        sender.close()


class Round:
    """One round, as far as it has come."""

    def __init__(self) -> None:
        self.run_id = str(generate_new_uuid())
        self.streams: Sequence[str] = ()
        self.is_stopped = False

    def reads(self, streams: Iterable[str]) -> None:
        """Name the streams that it reads."""
        self.streams = sorted(streams)

    def was_stopped(self) -> None:
        """Say that it ends before it is done."""
        self.is_stopped = True


class Rounds:
    """Tells about rounds on one history; what cannot be told is logged and left out."""

    def __init__(self, sender: Sender, root: str, url: str) -> None:
        self._sender = sender
        self._root = root
        self._store = store_namespace(url)
        self._versions: Mapping[str, int | None] | None = None

    @contextmanager
    def round(self) -> Generator[Round]:
        """Tell that a round begins, and at the end of the block how it ended."""
        this = Round()
        self._tell(this, RunState.START)
        try:
            yield this
        except BaseException as error:
            self._tell(this, RunState.FAIL, error)
            raise
        self._tell(this, RunState.ABORT if this.is_stopped else RunState.COMPLETE)

    def _tell(self, this: Round, state: RunState, error: BaseException | None = None) -> None:
        try:
            outputs: list[OutputDataset] = []
            if self._versions is None:
                self._versions = self._present_versions()
            if state != RunState.START:
                before, self._versions = self._versions, self._present_versions()
                outputs = list(self._outputs(before, self._versions))
            self._sender.send(self._event(this, state, outputs, error))
        # The history is more important than what is told about it.
        except Exception as problem:
            _log.warning("lineage_not_sent", **describe(problem))

    def _event(
        self,
        this: Round,
        state: RunState,
        outputs: list[OutputDataset],
        error: BaseException | None,
    ) -> RunEvent:
        run = Run(
            runId=this.run_id,
            facets={
                "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                    version=waystation.__version__, name="waystation", **_OURS
                )
            },
        )
        if error is not None:
            assert run.facets is not None  # noqa: S101
            run.facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=f"{type(error).__name__}: {message_of(error)}",
                programmingLanguage="PYTHON",
                **_OURS,
            )
        kind = job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="WAYSTATION", jobType="ROUND", **_OURS
        )
        return RunEvent(
            eventType=state,
            eventTime=dt.datetime.now(dt.UTC).isoformat(),
            run=run,
            job=Job(
                namespace=os.environ.get(NAMESPACE_VARIABLE) or "waystation",
                name=JOB,
                facets={"jobType": kind},
            ),
            inputs=[InputDataset(namespace=self._store, name=key) for key in this.streams],
            outputs=outputs,
            producer=PRODUCER,
        )

    def _present_versions(self) -> dict[str, int | None]:
        return {table.name: changes.version(table.path(self._root)) for table in _tables()}

    def _outputs(
        self, before: Mapping[str, int | None], now: Mapping[str, int | None]
    ) -> Generator[OutputDataset]:
        """Every table, with the rows that it got since these versions, which may be none."""
        for table in _tables():
            version = now[table.name]
            if version is not None:
                yield self._output(table, before[table.name], version)

    def _output(self, table: Table, before: int | None, now: int) -> OutputDataset:
        path = table.path(self._root)
        namespace, name = dataset_name(path)
        got = changes.written(path, after=before, until=now)
        return OutputDataset(
            namespace=namespace,
            name=name,
            facets={
                "schema": schema_dataset.SchemaDatasetFacet(
                    fields=[
                        schema_dataset.SchemaDatasetFacetFields(
                            name=column.name,
                            type=column.type,
                            description=column.meaning,
                            ordinal_position=number,
                        )
                        for number, column in enumerate(table.columns, 1)
                    ],
                    **_OURS,
                ),
                "documentation": documentation_dataset.DocumentationDatasetFacet(
                    description=table.meaning, **_OURS
                ),
                "storage": storage_dataset.StorageDatasetFacet(
                    storageLayer="delta", fileFormat="parquet", **_OURS
                ),
                "version": dataset_version_dataset.DatasetVersionDatasetFacet(
                    datasetVersion=str(now), **_OURS
                ),
            },
            outputFacets={
                "outputStatistics": (
                    output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                        rowCount=got.rows, size=got.size, fileCount=got.files, **_OURS
                    )
                )
            },
        )


def store_namespace(url: str) -> str:
    """The name of a store, without anything that is secret."""
    address = parse(url)
    if address.kind is Kind.SOCKET:
        return f"redis://{address.path}"
    host, port = address.hosts[0]
    return f"redis://{host}:{port}" + (f"/{address.db}" if address.db else "")


def dataset_name(path: str) -> tuple[str, str]:
    """The namespace and the name of a table, as OpenLineage names files."""
    if not is_remote(path):
        return "file", str(Path(path).resolve())
    parts = urlsplit(path)
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def _tables() -> Iterable[Table]:
    return (*every(), *OPEN, *product_tables())

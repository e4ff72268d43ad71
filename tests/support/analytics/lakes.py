"""Tables of a lake, as an export opens them and as their readers see them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as Log
from pyiceberg.catalog import load_catalog

from jdbcstore.analytics.lake import DeltaTable, IcebergTable, LakeTable
from tests.support.servers.s3 import S3Server

_OF_DELTA = {
    "AWS_ENDPOINT_URL": "{url}",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
}
_OF_ICEBERG = {
    "s3.endpoint": "{url}",
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.region": "us-east-1",
}


class Lake:
    """A table of one kind, in a folder, or on an S3 server."""

    def __init__(self, kind: str, folder: Path, server: S3Server | None = None) -> None:
        self.kind = kind
        self.place = "mq.messages"
        self.options: dict[str, str] = {}
        """Those of the storage, or of the catalog."""
        if kind == "delta":
            self.place = str(folder / "table") if server is None else f"s3://{server.BUCKET}/table"
        else:
            warehouse = (
                (folder / "warehouse").as_uri() if server is None else f"s3://{server.BUCKET}/warehouse"
            )
            catalog = f"sqlite:///{folder / 'catalog.db'}"
            self.options = {"type": "sql", "uri": catalog, "warehouse": warehouse}
        if server is not None:
            more = _OF_DELTA if kind == "delta" else _OF_ICEBERG
            self.options |= {name: value.format(url=server.url) for name, value in more.items()}

    @property
    def arguments(self) -> list[str]:
        """Those of ``jdbcstore export``."""
        pairs = [f"--option={name}={value}" for name, value in self.options.items()]
        return [self.place, *(["--iceberg"] if self.kind == "iceberg" else []), *pairs]

    def table(self, destination: str | None = None) -> LakeTable:
        if self.kind == "delta":
            return DeltaTable(self.place, self.options, destination)
        return IcebergTable(self.place, options=self.options, destination=destination)

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows, a part at a time."""
        if self.kind == "delta":
            yield from self.delta.to_pyarrow_dataset().to_batches(columns=["id", *columns])
        else:
            yield from self.iceberg.scan(selected_fields=("id", *columns)).to_arrow_batch_reader()

    def rows(self, *columns: str) -> list[dict[str, Any]]:
        """Return the rows, by id."""
        rows = [row for batch in self.batches(*columns) for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: row["id"])

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]

    def commits(self) -> object:
        """Return what differs after each commit; None if there is no table."""
        if self.kind == "iceberg":
            return self.iceberg.metadata_location
        return self.delta.version() if Log.is_deltatable(self.place, self.options) else None

    def change(self) -> None:
        """Commit a change that is not an export's, such as a compaction."""
        if self.kind == "delta":
            self.delta.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
        else:
            with self.iceberg.transaction() as transaction:
                transaction.set_properties(owner="somebody")

    @property
    def delta(self) -> Log:
        return Log(self.place, storage_options=self.options)

    @property
    def iceberg(self) -> Any:
        return self._catalog.load_table(self.place)

    @cached_property
    def _catalog(self) -> Any:
        return load_catalog("default", **self.options)

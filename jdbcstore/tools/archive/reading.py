"""The rows of an archive's files, in pages of bounded size. Spark is not needed for that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

PAGE = 1000
_PAGE_BYTES = 8 * 1024 * 1024
_FEW = 16
"""Rows that are decompressed at once: large ones must not fill the memory."""


class ArchivedName(NamedTuple):
    """Which message it is, and what its bytes are."""

    id: int
    container: str
    msgid_prod: str | None
    msgid_seq: int | None
    msg_sha256: str
    message_size: int
    time_ms: int | None

    @property
    def name(self) -> tuple[object, ...]:
        return self[:4]


class ArchivedMessage(NamedTuple):
    """A row as the store had it."""

    id: int
    container: str
    msgid_prod: str | None
    msgid_seq: int | None
    expiration: int | None
    msg: bytes
    priority: int | None
    time_ms: int | None
    message_size: int


def names(path: Path) -> Iterator[list[ArchivedName]]:
    """By ID, so many at once that the messages themselves would be a page."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(PAGE, columns=[*ArchivedName._fields]):
            rows = zip(*(batch.column(name).to_pylist() for name in ArchivedName._fields), strict=True)
            yield from _pages([ArchivedName(*row) for row in rows])


def messages(path: Path) -> Iterator[list[ArchivedMessage]]:
    """By ID, in pages."""
    page: list[ArchivedMessage] = []
    size = 0
    for row in rows(path):
        if page and (len(page) == PAGE or size + row.message_size > _PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(row)
        size += row.message_size
    if page:
        yield page


def rows(path: Path) -> Iterator[ArchivedMessage]:
    """By ID, one by one."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_FEW, columns=[*ArchivedMessage._fields]):
            columns = (batch.column(name).to_pylist() for name in ArchivedMessage._fields)
            yield from map(ArchivedMessage._make, zip(*columns, strict=True))


def container_of(path: Path) -> str:
    """The destination whose messages a file has: one file has one's."""
    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(1, row_groups=[0], columns=["container"]))
    return str(batch.column("container")[0].as_py())


def _pages(rows: list[ArchivedName]) -> Iterator[list[ArchivedName]]:
    start, size = 0, 0
    for index, row in enumerate(rows):
        if index > start and size + row.message_size > _PAGE_BYTES:
            yield rows[start:index]
            start, size = index, 0
        size += row.message_size
    yield rows[start:]

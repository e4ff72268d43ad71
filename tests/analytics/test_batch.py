"""Decoding by columns says what the codec says, whatever is in the blobs."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from jdbcstore.analytics.batch import MessageBatch  # noqa: E402
from jdbcstore.analytics.columns import COLUMNS  # noqa: E402
from jdbcstore.errors import CorruptMessage  # noqa: E402
from jdbcstore.message.message import Message  # noqa: E402
from jdbcstore.message.openwire import decode, encode  # noqa: E402
from jdbcstore.message.openwire.reference import refer  # noqa: E402
from tests.support.analytics.plain import said  # noqa: E402
from tests.support.openwire.strategies import messages  # noqa: E402
from tests.support.recordings import all_messages  # noqa: E402

BLOBS = [message.msg for message in all_messages()]


def columns_of(blobs: list[bytes | None]) -> list[dict[str, Any]]:
    batch = MessageBatch(pa.array(blobs, pa.binary()))
    columns = {column.name: batch.column(column.decode) for column in COLUMNS}
    for column in columns.values():
        column.validate(full=True)
    lists = {name: column.to_pylist() for name, column in columns.items()}
    return [{name: values[row] for name, values in lists.items()} for row in range(len(blobs))]


def check(blobs: list[bytes | None]) -> None:
    for row, blob in zip(columns_of(blobs), blobs, strict=True):
        try:
            expected = said(decode(blob))
        except CorruptMessage:
            assert row["error"]
            continue
        shown = {name: row[name] for name in expected}
        shown["properties"] = [name for name, _ in row["properties"]]
        shown["body_map"] = row["body_map"] is not None and json.loads(row["body_map"]) is not None
        assert shown == expected


def test_recorded_messages() -> None:
    check([*BLOBS])


def test_nothing_and_no_message() -> None:
    check([])
    check([None, b"", b"\0\0\0\1\x1c", BLOBS[0], None])


@given(st.lists(messages(), max_size=6))
@settings(max_examples=60)
def test_any_messages(several: list[Message]) -> None:
    check([encode(message) for message in several])


@given(st.data())
@settings(max_examples=150)
def test_damaged_messages(data: st.DataObject) -> None:
    blobs = data.draw(
        st.lists(st.sampled_from(BLOBS).filter(lambda blob: len(blob) < 2000), min_size=1, max_size=4)
    )
    damaged = []
    for blob in blobs:
        changed = bytearray(blob)
        for _ in range(data.draw(st.integers(1, 3))):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        damaged.append(
            bytes(changed[: data.draw(st.integers(0, len(changed)))] if data.draw(st.booleans()) else changed)
        )
    check([*damaged])


def test_a_reference_into_a_journal_says_so() -> None:
    batch = MessageBatch(pa.array([refer(7, 3, 512, bytes(300), 8)], pa.binary()))
    assert batch.problems == {0: "its body is only in the journal number 7"}


def test_threads_of_one_worker_do_not_take_each_others_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark may decode in several threads (``spark.sql.execution.pythonUDF.arrow.concurrency.level``)."""
    pytest.importorskip("pyspark")
    from jdbcstore.analytics import decoding

    monkeypatch.setattr(decoding, "_batches", [])
    columns = [pa.array([blob], pa.binary()) for blob in BLOBS[:4]]

    def strangers(blobs: Any) -> int:
        return sum(decoding._batch_of(blobs).blobs is not blobs for _ in range(1000))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(columns)) as threads:
            assert [*threads.map(strangers, columns)] == [0] * len(columns)
    finally:
        sys.setswitchinterval(before)

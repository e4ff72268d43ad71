"""The headers of an archive are the same, whether Java or Python has read them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from jdbcstore import Destination, Message
from jdbcstore.message.openwire import encode
from tests.support.recordings import all_messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)  # the first one starts Spark's workers, and compiles

ODD = ("", "x", "ä", "€", "\U0001f37a", "\0", "a\0b", "x" * 300, "a,b", "a?b", " a", "a ", "Ü\t.")


def _blobs() -> list[bytes | None]:
    dice = random.Random(7)
    sound = [message.msg for message in all_messages()]
    for text in ODD:
        message = Message(
            text, jms_type=text, correlation_id=text, timestamp_ms=dice.choice((0, 1, -1, 2**63 - 1, 10**12))
        )
        sound.append(encode(message))
        if text.strip() == text and "\0" not in text and "?" not in text and text:
            sound.append(encode(message.replace(original_destination=Destination.topic(text))))
    damaged: list[bytes | None] = [None, b"", b"\0", b"\0\0\0\1\x1c"]
    short = [blob for blob in sound if len(blob) < 1000]
    for _ in range(3000):
        changed = bytearray(dice.choice(short))
        for _ in range(dice.randint(1, 3)):
            changed[dice.randrange(len(changed))] = dice.choice((0, 1, 2, 255, dice.randrange(256)))
        damaged.append(bytes(changed[: dice.randrange(len(changed))] if dice.random() < 0.1 else changed))
    return [*sound, *damaged]


def test_java_reads_what_python_reads(spark: SparkSession) -> None:
    """Or says that it cannot; it can read almost every message that a broker has stored, damaged or not."""
    from jdbcstore.analytics.batch import MessageBatch
    from jdbcstore.analytics.headers import HEADERS, _in_java

    blobs = _blobs()
    rows = spark.createDataFrame([*enumerate(blobs)], "id INT, msg BINARY")
    found: dict[int, Any] = dict(rows.select("id", _in_java(spark, rows["msg"])).collect())

    batch = MessageBatch(pa.array(blobs, pa.binary()))
    columns = {one.name: batch.column(one.decode).to_pylist() for one in HEADERS}
    expected: list[dict[str, Any]] = [
        {name: values[row] for name, values in columns.items()} for row in range(len(blobs))
    ]
    known = [row for row in range(len(blobs)) if found[row] is not None]
    assert [found[row].asDict() for row in known] == [expected[row] for row in known]
    assert all(batch.known[row] for row in known)
    recorded = len(all_messages())
    assert len([row for row in known if row < recorded]) >= 0.9 * batch.known[:recorded].sum()
    assert len(known) > 0.5 * batch.known.sum()

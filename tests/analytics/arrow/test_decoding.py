"""``analytics.decode``: the columns of the views, of MSG bytes that are in no store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import pyarrow.parquet  # noqa: E402

import jdbcstore  # noqa: E402
from jdbcstore import analytics  # noqa: E402
from jdbcstore.analytics.arrow import decoding  # noqa: E402
from jdbcstore.analytics.columns import COLUMNS  # noqa: E402
from jdbcstore.errors import ConfigurationError  # noqa: E402
from tests.support import recordings  # noqa: E402
from tests.support.databases import Database  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAMAGED = b"\0\0\0\1\x1c"
NAMES = [column.name for column in COLUMNS]


def dump(kind: Any = None) -> Any:
    """The recorded messages as another program might land them, a damaged one, and none."""
    blobs = [*(message.msg for message in recordings.postgres().messages), DAMAGED, None]
    numbers = [*(message.sequence for message in recordings.postgres().messages), -1, -2]
    return pa.table({"id": pa.array(numbers), "MSG": pa.array(blobs, kind or pa.binary())})


@pytest.fixture
def expected(database: Database) -> list[dict[str, Any]]:
    """The same messages as the view shows them, with the rows of the damaged one and of none."""
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    for message in recordings.postgres().messages:
        names = ", ".join(message.row)
        values = ", ".join(f":{name}" for name in message.row)
        database.execute(f"INSERT INTO ACTIVEMQ_MSGS ({names}) VALUES ({values})", **message.row)
    rows = jdbcstore.read_arrow(database.url, ["id", *NAMES]).read_all().to_pylist()
    assert len(rows) == len(recordings.postgres().messages) > 10
    return sorted(rows, key=lambda row: row["id"])


def compare(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    (*lost,) = (row for row in rows if row["id"] < 0)
    assert {row["id"]: bool(row.pop("error")) for row in lost} == {-1: True, -2: True}
    assert {value for row in lost for name, value in row.items() if name not in ("id", "MSG")} == {None}
    found = sorted((row for row in rows if row["id"] >= 0), key=lambda row: row["id"])
    # As text, because NaN does not equal itself.
    shown = [{name: row[name] for name in ("id", *NAMES)} for row in found]
    assert [*map(str, shown)] == [*map(str, expected)]


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("rows", [1, 1000])
def test_a_table_or_reader(
    expected: list[dict[str, Any]], kind: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dump(kind)
    monkeypatch.setattr(decoding, "PAGE_ROWS", rows)
    for given in (table, table.to_reader(), table.slice(3)):
        reader = analytics.decode(given, "MSG")
        assert reader.schema.names == ["id", "MSG", *NAMES]
        batches = [*reader]
        assert max(map(len, batches)) <= rows
        found = pa.Table.from_batches(batches, reader.schema)
        found.validate(full=True)
        assert found.column("MSG").to_pylist() == table.column("MSG").to_pylist()[-len(found) :]
        ids = {*found.column("id").to_pylist()}
        compare(found.to_pylist(), [row for row in expected if row["id"] in ids])


def test_batches_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One large message behind small ones is in a batch of its own."""
    table = dump()
    lengths = [len(blob or b"") for blob in table.column("MSG").to_pylist()]
    most = 2 * sum(lengths) // len(lengths)
    monkeypatch.setattr(decoding, "PAGE_BYTES", most)
    batches = [*analytics.decode(table, "MSG")]
    sizes = [[len(blob or b"") for blob in batch.column("MSG").to_pylist()] for batch in batches]
    assert [each for size in sizes for each in size] == lengths
    assert all(len(size) == 1 or sum(size) <= most for size in sizes)
    assert len(table) > len(batches) > 2


@pytest.mark.backends("sqlite")
def test_duckdb_and_a_file(expected: list[dict[str, Any]], tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pyarrow.parquet.write_table(dump(), tmp_path / "dump.parquet")
    stored = duckdb.sql(f"SELECT * FROM '{tmp_path / 'dump.parquet'}'").to_arrow_table()
    messages = analytics.decode(stored, "MSG")
    found = duckdb.sql("SELECT id, body_text FROM messages WHERE error IS NULL ORDER BY id")
    assert found.fetchall() == [(row["id"], row["body_text"]) for row in expected if row["error"] is None]
    assert messages.schema.names[-1] == "error"


@pytest.mark.spark
@pytest.mark.backends("sqlite")
def test_spark(expected: list[dict[str, Any]], spark: SparkSession, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(dump(), tmp_path / "dump.parquet")
    frame = analytics.decode(spark.read.parquet(str(tmp_path / "dump.parquet")), "MSG")
    assert frame.columns == ["id", "MSG", *NAMES]
    compare(frame.toArrow().to_pylist(), expected)
    kinds = dict(frame.dtypes)
    assert (kinds["timestamp"], kinds["jms_priority"]) == ("timestamp", "int")
    assert kinds["properties"].startswith("map<string,struct<type:string,text:string,")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": [1]}, "there is no single column msg; choose from id"),
        ({"msg": ["text"]}, "the column msg is of type string; give the binary column MSG"),
        (
            {"msg": [b""], "Type": [1], "ERROR": [1]},
            "rename Type, ERROR: decoding adds columns of these names",
        ),
    ],
)
def test_what_cannot_be_decoded(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        analytics.decode(pa.table(columns))


def test_a_task_of_spark_needs_no_database() -> None:
    """A session ships the package to executors, but not SQLAlchemy."""
    program = "import sys; sys.modules['sqlalchemy'] = None; import jdbcstore.analytics.arrow.decoding"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_not_a_frame() -> None:
    with pytest.raises(
        ConfigurationError, match="list is neither a DataFrame of Spark nor a stream of Arrow"
    ):
        analytics.decode([b""])


@pytest.mark.spark
def test_what_spark_cannot_decode(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="is of type string; give the binary column MSG"):
        analytics.decode(spark.sql("SELECT 'x' AS msg"))
    with pytest.raises(ConfigurationError, match="rename type: decoding adds"):
        analytics.decode(spark.sql("SELECT X'00' AS msg, 1 AS type"))

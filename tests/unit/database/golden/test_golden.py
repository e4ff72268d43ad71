"""The compiled SQL is the one that was read and approved, and falls into none of the known traps."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
import sqlglot

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.mssql import MssqlAdapter
from jdbcstore.database.adapters.registry import BUILT_IN, GENERIC, adapter_class
from jdbcstore.database.adapters.sql import Sql, SqlText
from tests.unit.database.golden.rendering import FOLDER, GOLDEN, definitions, render, statements

VENDORS = [name for name in BUILT_IN if name not in GENERIC]
every_vendor = pytest.mark.parametrize("vendor", VENDORS)


def adapter_of(vendor: str) -> Adapter:
    return adapter_class(vendor)()


@pytest.mark.parametrize("vendor", GOLDEN)
def test_compiled_is_what_was_approved(vendor: str) -> None:
    path = FOLDER / f"{vendor}.sql"
    approved = path.read_text(encoding="utf-8") if path.exists() else ""
    assert render(vendor) == approved, "run: python -m tests.unit.database.golden; then read git diff"


@every_vendor
def test_a_row_to_be_changed_is_locked(vendor: str) -> None:
    """SQL Server's and SQLite's dialects drop FOR UPDATE in silence, and Derby's lock ends with the row."""
    adapter = adapter_of(vendor)
    found = statements(adapter)
    text = found["find_number_for_update"].text
    locks = {
        "by FOR UPDATE": text.rstrip().endswith("FOR UPDATE"),
        "by FOR UPDATE, kept": " FOR UPDATE WITH RS" in text,
        "by a hint": "WITH (UPDLOCK, ROWLOCK)" in text,
        "by an UPDATE before": "lock_number" in found,
        "by the transaction's start": adapter.writing.begin_statement == "BEGIN IMMEDIATE",
    }
    assert sum(locks.values()) == 1, locks


def test_who_locks_how() -> None:
    """A vendor whose SELECT locks nothing must not be thought to lock."""
    touched = {vendor for vendor in VENDORS if adapter_of(vendor).touches_to_lock}
    assert touched == {"hsqldb", "informix", "sybase", "maxdb", "axion"}, (
        "name a new vendor here if its SELECT cannot lock a row; if it can, set touches_to_lock=False"
    )
    assert "UPDLOCK" in statements(adapter_of("mssql"))["find_number_for_update"].text


@every_vendor
@pytest.mark.slow
def test_no_row_is_locked_within_a_page(vendor: str) -> None:
    """ORA-02014: Oracle refuses FOR UPDATE together with FETCH FIRST or ROWNUM."""
    for name, sql in statements(adapter_of(vendor)).items():
        locks = re.search("FOR UPDATE|UPDLOCK", sql.text)
        pages = re.search(r"FETCH|ROWNUM|LIMIT|\bTOP\b|maxrows", sql.text)
        assert not (locks and pages), name


@every_vendor
@pytest.mark.slow
def test_no_page_is_inside_a_list(vendor: str) -> None:
    """MySQL refuses LIMIT in a subquery of IN."""
    for name, sql in statements(adapter_of(vendor)).items():
        assert not re.search(r"\bIN\s*\(\s*SELECT", sql.text), name


@pytest.mark.parametrize(
    ("vendor", "wanted", "refused"),
    [
        ("mssql", r"\[MSG\] VARBINARY\(max\)", "IMAGE|BINARY,"),
        ("mysql", "`MSG` LONGBLOB", r"\bBLOB"),
        ("mariadb", "`MSG` LONGBLOB", r"\bBLOB"),
        ("db2", r'"MSG" BLOB\(1G\)', r"BLOB,"),
        ("oracle", '"MSG" BLOB', "LONG RAW"),
        ("postgresql", '"msg" BYTEA', "OID"),
        ("maxdb", r'"EXPIRATION" FIXED\(19\)', "INTEGER"),
    ],
)
def test_a_column_holds_what_messages_need(vendor: str, wanted: str, refused: str) -> None:
    """SQL Server's dialect makes IMAGE, MySQL's 64 KB, DB2 itself 1 MB; MaxDB's INTEGER ends in 1970."""
    made = definitions(adapter_of(vendor))[0]

    assert re.search(wanted, made)
    assert not re.search(refused, made)


def test_sql_server_holds_every_name_in_a_key() -> None:
    """A clustered key ends at 900 bytes, and three names of two bytes a character have 1500."""
    made = [text for text in definitions(adapter_of("mssql")) if "CLIENT_ID" in text]

    assert len(made) == 2
    for text in made:
        assert "PRIMARY KEY NONCLUSTERED" in text
        assert "NVARCHAR(250) COLLATE Latin1_General_100_BIN2" in text


def test_sql_server_numbers_no_rows() -> None:
    for name, sql in statements(adapter_of("mssql")).items():
        assert "ROW_NUMBER" not in sql.text, name


class Counting:
    """A cursor that only counts what it is given."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def execute(self, text: str, parameters: list[Any]) -> None:
        assert text.count("?") == len(parameters)
        self.given.append(len(parameters))


def test_sql_server_gets_no_more_parameters_than_it_takes() -> None:
    adapter, cursor = MssqlAdapter(), Counting()
    found = statements_in_marks(adapter)

    adapter.writing.insert_messages(
        cursor, found["add_message"], [(1, "c", "p", 1, 0, b"m", 0, None)] * 1_001
    )
    adapter.writing.delete_messages(cursor, found["remove_message"], [("c", id_) for id_ in range(5_001)])

    assert max(cursor.given) <= 2_100
    assert sum(cursor.given) == 8 * 1_001 + 5_001 + 3


def statements_in_marks(adapter: MssqlAdapter) -> dict[str, Any]:
    """As pyodbc takes them: without the driver, SQLAlchemy numbers the parameters."""
    return {
        name: Sql(partial(SqlText, re.sub(r":\d+", "?", sql.text), sql.names, sql.constants))
        for name, sql in statements(adapter).items()
    }


def test_oracle_names_are_of_thirty_characters() -> None:
    """Up to 12.1 a longer one is refused."""
    for text in definitions(adapter_of("oracle")):
        for name in re.findall('"([^"]+)"', text):
            assert len(name) <= 30


def test_sybase_says_which_columns_may_be_null() -> None:
    assert "XID VARCHAR(250) NULL" in definitions(adapter_of("sybase"))[0]


@pytest.mark.parametrize(("vendor", "dialect"), [("oracle", "oracle"), ("mssql", "tsql"), ("mysql", "mysql")])
@pytest.mark.slow
def test_an_independent_parser_takes_it(vendor: str, dialect: str) -> None:
    adapter = adapter_of(vendor)
    texts = [*definitions(adapter), *(sql.text for sql in statements(adapter).values())]
    for text in texts:
        # It does not know the word where the key has no name.
        marked = re.sub(r":\d+|%s", "?", text).replace(" NONCLUSTERED", "")
        parsed = sqlglot.parse_one(marked, dialect=dialect, error_level=sqlglot.ErrorLevel.RAISE)
        assert not isinstance(parsed, sqlglot.exp.Command), text

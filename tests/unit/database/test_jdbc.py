"""What a JDBC URL needs on this machine, and what is said where it is not there."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore.database.adapters.jdbc import dbapi
from jdbcstore.database.adapters.jdbc.dialect import Metadata
from jdbcstore.errors import ConfigurationError, MissingDriver

pytestmark = [pytest.mark.slow, pytest.mark.java]

H2 = Path("/usr/share/java/h2.jar")
needs_h2 = pytest.mark.skipif(not H2.exists(), reason="H2 is not installed")


def test_a_missing_jar_file_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"db2jcc4\.jar.* JDBCSTORE_JDBC_JARS") as raised:
        jdbcstore.open("jdbc:db2://127.0.0.1:50000/mq:user=me;password=s3cret;")

    assert "s3cret" not in str(raised.value)


def test_a_missing_bridge_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jpype", None)
    monkeypatch.delitem(sys.modules, "jdbcstore.database.adapters.jdbc.dbapi")

    with pytest.raises((MissingDriver, ConfigurationError), match=r"jdbcstore\[jdbc\]|install"):
        jdbcstore.open("jdbc:h2:mem:x")


@needs_h2
def test_the_users_jar_files_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One under another name, for a subprotocol of which we know no file."""
    (tmp_path / "mine.jar").write_bytes(H2.read_bytes())
    monkeypatch.setenv("JDBCSTORE_JDBC_JARS", str(tmp_path))

    connection = dbapi.connect("jdbc:h2:mem:users", None, None)
    place = connection.java.getClass().getProtectionDomain().getCodeSource().getLocation()
    connection.close()

    assert str(place).endswith("/mine.jar")


@needs_h2
def test_java_leaves_python_its_stack() -> None:
    """Deeply nested JSON needs more of it than Java leaves by default."""
    program = (
        "import json, sys; from jdbcstore.database.adapters.jdbc import dbapi;"
        " dbapi.connect('jdbc:h2:mem:deep', None, None).close(); sys.setrecursionlimit(25_000);"
        " json.loads('[' * 20_000 + ']' * 20_000)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    # Python 3.12 and later refuse at a depth of their own, which must be the end of nothing else.
    assert done.returncode == 0 or "RecursionError" in done.stderr, (done.returncode, done.stderr)


@needs_h2
def test_values_go_and_come_back_as_they_are() -> None:
    connection = dbapi.connect("jdbc:h2:mem:values", "sa", "")
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE t (i BIGINT, d DECIMAL(19), f DOUBLE PRECISION, s VARCHAR(9), b BLOB, o BOOLEAN)"
    )
    rows = [
        (2**63 - 1, 10**18, 0.5, "☃\U0001f600", b"\0\xff", True),
        (-1, 0, 0.0, "", b"", False),
        (None,) * 6,
    ]
    cursor.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
    assert cursor.rowcount == 3
    cursor.execute("SELECT * FROM t {maxrows ?}", (2,))
    assert cursor.fetchall() == rows[:2]
    cursor.execute("SELECT * FROM t")
    assert cursor.fetchall() == rows
    connection.close()


@needs_h2
def test_a_transaction_is_the_autocommit_switch() -> None:
    connection = dbapi.connect("jdbc:h2:mem:switch", "sa", "")
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (i BIGINT)")
    connection.autocommit = False
    cursor.execute("INSERT INTO t VALUES (1)")
    connection.rollback()
    connection.autocommit = True
    cursor.execute("SELECT COUNT(*) FROM t")

    assert cursor.fetchone() == (0,)
    assert cursor.fetchone() is None
    connection.close()


@needs_h2
def test_an_error_says_what_it_is_and_what_is_behind_it() -> None:
    connection = dbapi.connect("jdbc:h2:mem:errors", "sa", "")
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (i BIGINT PRIMARY KEY)")
    with pytest.raises(dbapi.Error) as raised:
        cursor.executemany("INSERT INTO t VALUES (?)", [(1,), (1,)])
    connection.close()

    assert ("23505", 23505) in dbapi.states(raised.value)


@needs_h2
def test_indexes_are_read_while_another_connection_creates_some() -> None:
    """H2 alone fails in 2 to 3 of 100 cases."""
    reader, writer = (dbapi.connect("jdbc:h2:mem:indexes", "sa", "") for _ in range(2))
    writer.cursor().execute("CREATE TABLE t (i BIGINT)")
    read = False

    def create_indexes() -> None:
        while not read:
            writer.cursor().execute("CREATE INDEX other ON t (i)")
            writer.cursor().execute("DROP INDEX other")

    with ThreadPoolExecutor() as threads:
        creating = threads.submit(create_indexes)
        try:
            found = [name for _ in range(300) for name in Metadata(reader).indexes("t")]
        finally:
            read = True
        creating.result(180)
    assert set(found) <= {"OTHER"}
    reader.close()
    writer.close()

"""How a URL, an option or ActiveMQ's own name finds an adapter."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pymysql.err import InternalError, OperationalError
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from jdbcstore.config import StoreConfig
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.generic import UNTRIED
from jdbcstore.database.adapters.jdbc.jvm import USUAL_JARS
from jdbcstore.database.adapters.libpq import numbered
from jdbcstore.database.adapters.registry import (
    BUILT_IN,
    adapter_class,
    adapter_for,
    adapter_names,
    adapter_of_activemq,
)
from jdbcstore.database.adapters.sql import with_marks
from jdbcstore.database.adapters.urls import without_secrets
from jdbcstore.database.engine import Database
from jdbcstore.errors import ConfigurationError, UnknownDatabase
from tests.support import ROOT
from tests.support.docs.pages import Page

SECRET = "s3cret"


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_adapter_is_called_what_it_is_found_by(name: str) -> None:
    assert adapter_class(name).name == name
    assert adapter_names().count(name) == 1


@pytest.mark.parametrize("name", UNTRIED)
def test_a_vendor_that_is_only_facts_has_its_driver_and_its_row(name: str) -> None:
    subprotocols = set(UNTRIED[name].jdbc_subprotocols)

    assert subprotocols & USUAL_JARS.keys(), "name its driver's file in USUAL_JARS of adapters/jdbc/jvm.py"
    assert f"| `{name}` |" in (ROOT / "docs" / "vendors.md").read_text(), "write its row in docs/vendors.md"


@pytest.mark.parametrize(
    ("jdbc", "adapter", "url"),
    [
        (
            "jdbc:postgresql://db:5433/mq?user=me&password=p",
            "postgresql",
            "postgresql+psycopg://me:p@db:5433/mq",
        ),
        ("jdbc:postgresql:mq", "postgresql", "postgresql+psycopg://localhost/mq"),
        (
            "jdbc:oracle:thin:@//db:1522/mq.example",
            "oracle",
            "oracle+oracledb://db:1522?service_name=mq.example",
        ),
        ("jdbc:oracle:thin:@db:1522:XE", "oracle", "oracle+oracledb://db:1522/XE"),
        ("jdbc:oracle:thin:me/p@db:1522:XE", "oracle", "oracle+oracledb://me:p@db:1522/XE"),
        ("jdbc:oracle:thin:@db/mq", "oracle", "oracle+oracledb://db:1521?service_name=mq"),
        (
            "jdbc:sqlserver://db:1434;databaseName=mq;user=me;password=p",
            "mssql",
            "mssql+pyodbc://me:p@db:1434/mq",
        ),
        ("jdbc:sqlserver://;serverName=db;databaseName=mq", "mssql", "mssql+pyodbc://db/mq"),
        ("jdbc:jtds:sqlserver://db:1433/mq;user=me", "mssql", "mssql+pyodbc://me@db:1433/mq"),
        (
            "jdbc:derby://db:1527/mq;create=true;user=me;password=p",
            "derby",
            "jdbc:derby://db:1527/mq;create=true",
        ),
        (
            "jdbc:h2:tcp://db:9092/~/mq;USER=me;PASSWORD=p;TRACE_LEVEL_FILE=0",
            "h2",
            "jdbc:h2:tcp://db:9092/~/mq;TRACE_LEVEL_FILE=0",
        ),
        ("jdbc:hsqldb:hsql://db:9001/mq", "hsqldb", "jdbc:hsqldb:hsql://db:9001/mq"),
        ("jdbc:db2://db:50000/mq:user=me;password=p;", "db2", "jdbc:db2://db:50000/mq"),
        (
            "jdbc:informix-sqli://db:9088/mq:INFORMIXSERVER=x;user=me;password=p",
            "informix",
            "jdbc:informix-sqli://db:9088/mq:INFORMIXSERVER=x",
        ),
        ("jdbc:sybase:Tds:db:5000/mq?USER=me&PASSWORD=p", "sybase", "jdbc:sybase:Tds:db:5000/mq"),
        ("jdbc:sapdb://db/mq", "maxdb", "jdbc:sapdb://db/mq"),
        ("jdbc:axiondb:mq", "axion", "jdbc:axiondb:mq"),
    ],
)
def test_a_jdbc_url_finds_its_adapter(jdbc: str, adapter: str, url: str) -> None:
    found, target = adapter_for(jdbc)

    assert found.name == adapter
    wanted = {key: value for key, value in target.query.items() if key != "driver"}
    written = target.set(query=wanted).render_as_string(hide_password=False)
    assert target.query.get("url", written) == url
    assert target.username == ("me" if "me;" in jdbc.lower() or "=me" in jdbc or "me/" in jdbc else None)


@pytest.mark.parametrize(
    ("jdbc", "url"),
    [
        (
            "jdbc:postgresql://a:5433,b/mq?user=me&password=p&targetServerType=primary",
            "postgresql+psycopg://me:p@/mq?host=a%3A5433&host=b&target_session_attrs=read-write",
        ),
        ("jdbc:mysql:replication://a,b:3307/mq?user=me", "mysql+pymysql://me@/mq?host=a&host=b%3A3307"),
        (
            "jdbc:mariadb:sequential://a,[::1]:3307/mq",
            "mariadb+pymysql:///mq?host=a&host=%5B%3A%3A1%5D%3A3307",
        ),
    ],
)
def test_a_list_of_hosts(jdbc: str, url: str) -> None:
    assert adapter_for(jdbc)[1].render_as_string(hide_password=False) == url


def test_the_hosts_that_a_driver_is_given_in_turn() -> None:
    adapter, target = adapter_for("mariadb://me@/mq?host=a&host=[::1]:3307")
    assert adapter.hosts(target) == [("a", 3306), ("::1", 3307)]
    assert adapter.hosts(target.set(query={})) == []
    with pytest.raises(ConfigurationError, match="pymysql"):
        adapter.hosts(target.set(drivername="mariadb+pyodbc"))
    with pytest.raises(ConfigurationError, match="is not a host"):
        adapter.hosts(target.set(query={"host": ("a", "b:x")}))


def test_several_hosts_where_one_belongs() -> None:
    with pytest.raises(ConfigurationError, match=r"host=one:port&host=other:port") as raised:
        adapter_for(f"mariadb://me:{SECRET}@a:3306,b:3306/mq")
    assert SECRET not in str(raised.value)


def test_the_properties_of_a_bridged_url_stay_but_for_the_login() -> None:
    _, target = adapter_for("jdbc:h2:tcp://db:9092/~/mq;USER=me;PASSWORD=p;TRACE_LEVEL_FILE=0")

    assert target.query["url"] == "jdbc:h2:tcp://db:9092/~/mq;TRACE_LEVEL_FILE=0"
    assert (target.username, target.password) == ("me", "p")


@pytest.mark.parametrize(
    "jdbc",
    [
        *("jdbc:oracle:thin:nowhere", "jdbc:sqlserver:x", "jdbc:postgresql:h2:mem://"),
        *("jdbc:sqlserver://db;portNumber=x", f"jdbc:sqlserver://db:{'9' * 5000}"),
        f"jdbc:oracle:thin:@db:{'9' * 5000}/mq",
    ],
)
def test_a_jdbc_url_that_cannot_be_read(jdbc: str) -> None:
    with pytest.raises(ConfigurationError):
        adapter_for(jdbc)


def test_the_option_comes_before_the_url() -> None:
    adapter, target = adapter_for("postgresql+psycopg://me@db/mq", "bytes")

    assert adapter.name == "bytes"
    assert target.drivername == "postgresql+psycopg"
    assert adapter_for("jdbc:nosuch:db", "default")[0].name == "default"
    assert (
        adapter_for("sqlite:///mq.db", "jdbcstore.database.adapters.sqlite:SqliteAdapter")[0].name == "sqlite"
    )
    assert (
        adapter_for("sqlite:///mq.db", "jdbcstore.database.adapters.sqlite.SqliteAdapter")[0].name == "sqlite"
    )


@pytest.mark.parametrize(
    "name", ["nosuch", "nosuch.module", "os:path", "jdbcstore.database.adapters.base:Batch", ""]
)
def test_an_adapter_that_is_none(name: str) -> None:
    with pytest.raises(ConfigurationError):
        adapter_for("sqlite:///mq.db", name)


def test_an_unknown_scheme_names_the_way_out() -> None:
    with pytest.raises(UnknownDatabase, match="set the option adapter to default"):
        adapter_for("nosuchdb://db")


@pytest.mark.parametrize(
    ("name", "adapter"),
    [
        ("org.apache.activemq.store.jdbc.adapter.OracleJDBCAdapter", "oracle"),
        ("org.apache.activemq.store.jdbc.adapter.TransactJDBCAdapter", "mssql"),
        ("org.apache.activemq.store.jdbc.adapter.ImageBasedJDBCAdaptor", "image"),
        ("oracleBlobJDBCAdapter", "oracle"),
        ("sqlServerJDBCAdapter", "mssql"),
        ("transact-jdbc-adapter", "mssql"),
        ("postgresql-jdbc-adapter", "postgresql"),
        ("mysql-jdbc-adapter", "mysql"),
        ("hsqldb-jdbc-adapter", "hsqldb"),
        ("maxdb-jdbc-adapter", "maxdb"),
        ("sybase-jdbc-adapter", "sybase"),
        ("db2JDBCAdapter", "db2"),
        ("informixJDBCAdapter", "informix"),
        ("axionJDBCAdapter", "axion"),
        ("blobJDBCAdapter", "blob"),
        ("bytesJDBCAdapter", "bytes"),
        ("streamJDBCAdapter", "default"),
        ("defaultJDBCAdapter", "default"),
        ("imageBasedJDBCAdaptor", "image"),
        ("com.example.MyJDBCAdapter", None),
        ("oracle", None),
    ],
)
def test_activemqs_names(name: str, adapter: str | None) -> None:
    assert adapter_of_activemq(name) == adapter
    if adapter is not None:
        assert adapter_class(name).name == adapter


@pytest.mark.parametrize(
    "jdbc",
    [
        f"jdbc:derby://db/mq;user=me;password={SECRET}",
        f"jdbc:h2:tcp://db/mq;CIPHER=AES;PASSWORD={SECRET}",
        f"jdbc:derby:mq;dataEncryption=true;bootPassword={SECRET}",
        f"jdbc:db2://db:50000/mq:user=me;sslTrustStorePassword={SECRET};",
        f"jdbc:nosuch://db/mq?user=me&accessToken={SECRET}&x=1",
        f"jdbc:nosuch:me/{SECRET}@db",
        f"jdbc:nosuch://me:{SECRET}@db/mq",
    ],
)
def test_a_jdbc_url_shows_no_secret(jdbc: str) -> None:
    _, target = adapter_for(jdbc, "default")

    assert SECRET not in without_secrets(target)
    assert "mq" in without_secrets(target) or "db" in without_secrets(target)


def test_a_sqlalchemy_url_shows_no_secret() -> None:
    url = URL.create("postgresql", "me", SECRET, "db", query={"sslpassword": SECRET})

    assert SECRET not in without_secrets(url)


@pytest.mark.parametrize("adapter", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1045, "Access denied for user 'mq'@'localhost' (using password: YES)"),
        (1820, "You must reset your password using ALTER USER statement before executing this statement."),
        (1862, "Your password has expired. To log in you must change it using a client that supports it."),
        (3118, "Access denied for user 'mq'@'localhost'. Account is locked."),
        (4151, "Access denied, this account is locked"),
    ],
)
def test_a_login_that_mysql_refuses(adapter: str, code: int, text: str) -> None:
    made = adapter_class(adapter)()

    assert made.classify(OperationalError(code, text)) is Failure.REFUSED
    assert made.classify(Exception("HY000", f"[HY000] {text} ({code}) (SQLDriverConnect)")) is Failure.REFUSED


@pytest.mark.parametrize("adapter", ["mysql", "mariadb"])
def test_mysql_9_has_what_locks_migrations(adapter: str) -> None:
    """It took away MD5 and SHA1; a lock's name is at most 64 characters, as is a database's."""
    lock = adapter_class(adapter).lock_migrations

    assert not re.search(r"\b(MD5|SHA1?|PASSWORD|ENCRYPT|DES_ENCRYPT)\(", lock)
    assert "LEFT(SHA2(DATABASE(), 256), 40)" in lock
    assert len("jdbcstore ") + 40 <= 64


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("qmark", """a = ? AND b = '?%' AND "c?" = ?"""),
        ("format", """a = %s AND b = '?%%' AND "c?" = %s"""),
        ("named", """a = :1 AND b = '?%' AND "c?" = :2"""),
    ],
)
def test_marks(style: str, text: str) -> None:
    assert with_marks("""a = ? AND b = '?%' AND "c?" = ?""", style) == text


def test_the_adapter_of_the_documentation_plugs_in(tmp_path: Path) -> None:
    """The page's code as an installed package, with the entry point that the page names."""
    page = Page(ROOT / "docs" / "vendors.md")
    [code], [point] = page.examples("python"), page.examples("ini")
    (tmp_path / "patience.py").write_text(code.code)
    metadata = tmp_path / "patience-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: patience\nVersion: 1.0\n")
    [[group, points]] = tomllib.loads(point.code)["project"]["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    program = (
        "import jdbcstore\n"
        "from jdbcstore.database.adapters.registry import adapter_for, adapter_names\n"
        "assert adapter_names()[-1] == 'patient'\n"
        "for name in ('patient', 'patience:PatientSqliteAdapter'):\n"
        "    adapter, _ = adapter_for('sqlite:///mq.db', name)\n"
        "    assert type(adapter).__module__ == 'patience', adapter\n"
        "with jdbcstore.open('sqlite:///mq.db', adapter='patient') as store:\n"
        "    store.queue('ORDERS').add_message(jdbcstore.Message('a'))\n"
        "    print([message.body for message in store.queue('ORDERS').recover()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )

    assert done.stdout == "['a']\n", done.stderr


def test_what_pyodbc_closes_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not kept by the driver manager, with locks of its session."""
    pyodbc = pytest.importorskip("pyodbc", exc_type=ImportError)
    monkeypatch.setattr(pyodbc, "pooling", True)

    Database("mariadb+pyodbc://me@db/mq", StoreConfig()).connect_with().dispose()

    assert pyodbc.pooling is False


def test_a_connection_that_cannot_be_prepared_is_closed(tmp_path: Path) -> None:
    given: list[sqlite3.Connection] = []

    def refuse(connection: sqlite3.Connection) -> None:
        given.append(connection)
        raise sqlite3.OperationalError("not so")

    database = Database(f"sqlite:///{tmp_path / 'mq.db'}", StoreConfig())
    database.adapter.on_connect = refuse  # type: ignore[method-assign]
    with pytest.raises(DBAPIError, match="not so"):
        database.connect_with().connect()

    [connection] = given
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_placeholders_become_numbers() -> None:
    assert numbered("a = %s AND b LIKE '5%%s' AND c = %s") == "a = $1 AND b LIKE '5%s' AND c = $2"
    assert numbered("c = %s", 3) == "c = $3"


def test_an_answer_that_pymysql_cannot_read_is_a_lost_connection() -> None:
    error = InternalError("Packet sequence number wrong - got 3 expected 1")
    assert adapter_class("mysql")().classify(error) is Failure.DISCONNECTED

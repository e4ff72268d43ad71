"""SQL Server: what Microsoft's JDBC and ODBC drivers make of the same URL, and of its errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from jdbcstore import load_config
from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.registry import adapter_for
from tests.support.drivers import java
from tests.support.drivers.odbc import microsoft
from tests.support.drivers.tds import Login, ServerError, SqlServer
from tests.support.ports import free_port
from tests.support.require import unavailable

pyodbc = pytest.importorskip("pyodbc")

URLS = "jdbc:sqlserver://127.0.0.1:{};databaseName=mq;user=me;password=p"
BEAN = """
<beans xmlns="http://www.springframework.org/schema/beans">
  <bean id="ds" class="com.microsoft.sqlserver.jdbc.SQLServerDataSource">{properties}</bean>
  <broker><persistenceAdapter><jdbcPersistenceAdapter dataSource="#ds"/></persistenceAdapter></broker>
</beans>
"""
ERRORS = {
    # The numbers in the key of the row that exists are not the server's number of the error.
    2627: (
        "Violation of PRIMARY KEY constraint 'PK_1'. The duplicate key value is (1205).",
        Failure.DUPLICATE,
    ),
    2601: ("Cannot insert duplicate key row. The duplicate key value is (x (4060), 2).", Failure.DUPLICATE),
    1205: ("Transaction (Process ID 52) was deadlocked on lock resources.", Failure.TRANSIENT),
    1222: ("Lock request time out period exceeded.", Failure.TRANSIENT),
    3960: ("Snapshot isolation transaction aborted due to update conflict.", Failure.TRANSIENT),
    515: ("Cannot insert the value NULL into column 'ID'.", Failure.BAD_VALUE),
    2628: ("String or binary data would be truncated in column 'CONTAINER'.", Failure.BAD_VALUE),
    8152: ("String or binary data would be truncated.", Failure.BAD_VALUE),
    208: ("Invalid object name 'ACTIVEMQ_MSGS'.", Failure.NO_TABLE),
    207: ("Invalid column name 'XID'.", Failure.NO_TABLE),
    1105: ("Could not allocate space: the 'PRIMARY' filegroup is full.", Failure.FULL),
    9002: ("The transaction log for database 'mq' is full.", Failure.FULL),
    102: ("Incorrect syntax near 'SELCT'.", Failure.OTHER),
}
Connect = Callable[[str], tuple[Adapter, Any]]


@pytest.fixture(scope="module")
def driver() -> str:
    found = microsoft()
    if found is None:
        unavailable("msodbcsql", "no ODBC driver of Microsoft: pip install mssql-python-odbc")
    return str(found)


@pytest.fixture
def connect(driver: str) -> Connect:
    """Connect through pyodbc as a store does, but without TLS, which the server does not have."""

    def connect(text: str) -> tuple[Adapter, Any]:
        adapter, url = adapter_for(text)
        url = adapter.normalise(url.update_query_dict({"driver": driver, "Encrypt": "no"}))
        return adapter, raw(adapter, url)

    return connect


def raw(adapter: Adapter, url: URL) -> Any:
    dialect: Any = url.get_dialect()
    arguments, options = dialect(dbapi=pyodbc).create_connect_args(url)
    connection = pyodbc.connect(*arguments, **options, **adapter.engine_options(url)["connect_args"])
    adapter.on_connect(connection)
    return connection


def failure(adapter: Adapter, act: Callable[[], Any]) -> Failure:
    with pytest.raises(pyodbc.Error) as raised:
        act()
    return adapter.classify(raised.value)


@pytest.mark.java
@pytest.mark.usefixtures("jars")
@pytest.mark.parametrize(
    "text",
    [
        URLS,
        "jdbc:sqlserver://127.0.0.1:{};user=me;password=p;database=mq",
        "jdbc:sqlserver://;serverName=127.0.0.1;portNumber={};databaseName=mq;user=me;password=p",
        "jdbc:sqlserver://127.0.0.1:{};databaseName=mq;userName=me;password=p",
        "jdbc:sqlserver://127.0.0.1:{};databaseName=mq;user=me;password={{p;w}}",
    ],
)
def test_both_drivers_log_in_to_the_same(text: str, connect: Connect) -> None:
    with SqlServer() as server:
        url = text.format(server.port)
        java.open(f"{url};encrypt=false", login=False).close()
        _, connection = connect(url)
        connection.close()

    password = "p;w" if "p;w" in text else "p"
    assert server.logins == [Login("me", password, "mq")] * 2


@pytest.mark.java
@pytest.mark.usefixtures("jars")
def test_a_data_source_of_activemq_logs_in_to_the_same(tmp_path: Path, connect: Connect) -> None:
    with SqlServer() as server:
        given: dict[str, Any] = {"serverName": "127.0.0.1", "portNumber": server.port, "databaseName": "mq"}
        given["user"] = "me"
        made = java.data_source(
            "jdbc:sqlserver://x",
            "com.microsoft.sqlserver.jdbc.SQLServerDataSource",
            {**given, "password": "p"},
        )
        made.setEncrypt("false")
        made.getConnection().close()
        text = "".join(f'<property name="{name}" value="{value}"/>' for name, value in given.items())
        (tmp_path / "activemq.xml").write_text(BEAN.format(properties=text))
        source = load_config(tmp_path / "activemq.xml", environment={}).data_source
        assert source.user == "me"
        _, connection = connect(f"{source.url};user={source.user};password=p")
        connection.close()

    assert server.logins == [Login("me", "p", "mq")] * 2


@pytest.mark.parametrize("password", ["p:@/w", "p%w", "p}w", "ä☃"])
def test_the_password_arrives_as_it_is(connect: Connect, password: str) -> None:
    url = URL.create("mssql", "me", password, "127.0.0.1", 1, "mq")
    with SqlServer() as server:
        connect(url.set(port=server.port).render_as_string(hide_password=False))[1].close()
    assert [login.password for login in server.logins] == [password]


@pytest.mark.parametrize("number", ERRORS)
@pytest.mark.parametrize("parameters", [(), (7,)], ids=["direct", "prepared"])
def test_the_servers_errors(connect: Connect, number: int, parameters: tuple[int, ...]) -> None:
    text, expected = ERRORS[number]
    with SqlServer({number: ServerError(number, text)}) as server:
        adapter, connection = connect(URLS.format(server.port))
        statement = f"SELECT E{number}; {'?' * len(parameters)}"
        assert failure(adapter, lambda: connection.cursor().execute(statement, *parameters)) is expected
        connection.close()


def test_a_connection_that_ends_during_a_statement(connect: Connect) -> None:
    with SqlServer() as server:
        adapter, connection = connect(URLS.format(server.port))
        assert failure(adapter, lambda: connection.cursor().execute("SELECT CLOSE")) is Failure.DISCONNECTED


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        (18456, "Login failed for user 'me'.", Failure.REFUSED),
        (4060, 'Cannot open database "mq" requested by the login. The login failed.', Failure.REFUSED),
        (40613, "Database 'mq' on server 'x' is not currently available.", Failure.DISCONNECTED),
    ],
)
def test_a_login_that_is_refused(connect: Connect, number: int, text: str, expected: Failure) -> None:
    with SqlServer(refuses=ServerError(number, text)) as server:
        url = URLS.format(server.port)
        assert failure(adapter_for(url)[0], lambda: connect(url)) is expected


def test_nothing_that_listens_is_a_lost_connection(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver tries until its time is up, and says so with the state of a statement that took too long."""
    url = URLS.format(free_port())
    adapter, _ = adapter_for(url)
    options = {"connect_args": {"autocommit": True, "timeout": 1}}
    monkeypatch.setattr(type(adapter), "engine_options", lambda *_: options)
    with pytest.raises(pyodbc.Error) as raised:
        connect(url)
    assert raised.value.args[0] == "HYT00"
    assert adapter.classify(raised.value) is Failure.DISCONNECTED

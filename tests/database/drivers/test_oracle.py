"""Oracle: what its JDBC driver and oracledb make of the same URL, and oracledb's errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from jdbcstore import load_config
from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.registry import adapter_class, adapter_for
from jdbcstore.errors import ConfigurationError
from tests.support.drivers import java
from tests.support.drivers.tns import OracleListener
from tests.support.ports import free_port

oracledb = pytest.importorskip("oracledb")
from oracledb import errors  # noqa: E402

BEAN = """
<beans xmlns="http://www.springframework.org/schema/beans">
  <bean id="ds" class="oracle.jdbc.pool.OracleDataSource">{properties}</bean>
  <broker><persistenceAdapter><jdbcPersistenceAdapter dataSource="#ds"/></persistenceAdapter></broker>
</beans>
"""


def connect(adapter: Adapter, url: URL) -> Exception:
    """Return the error with which oracledb does not connect."""
    dialect: Any = url.get_dialect()
    arguments, options = dialect(dbapi=oracledb).create_connect_args(url)
    options |= adapter.engine_options(url)["connect_args"] | dict(
        zip(("user", "password"), java.LOGIN, strict=True)
    )
    with pytest.raises(oracledb.Error) as raised:
        oracledb.connect(*arguments, **options)
    refused: Exception = raised.value
    return refused


@pytest.mark.java
@pytest.mark.usefixtures("jars")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("jdbc:oracle:thin:@//127.0.0.1:{}/mq.example", "SERVICE_NAME=mq.example"),
        ("jdbc:oracle:thin:@127.0.0.1:{}/mq", "SERVICE_NAME=mq"),
        ("jdbc:oracle:thin:@127.0.0.1:{}:MQ", "SID=MQ"),
        ("jdbc:oracle:thin:me/p@127.0.0.1:{}:MQ", "SID=MQ"),
        ("jdbc:oracle:thin:me/p@//127.0.0.1:{}/mq", "SERVICE_NAME=mq"),
    ],
)
def test_both_drivers_reach_the_same(text: str, wanted: str) -> None:
    with OracleListener() as listener:
        url = text.format(listener.port)
        java.refused(url)
        connect(*adapter_for(url))

    assert listener.wanted == [wanted] * 2


@pytest.mark.java
@pytest.mark.usefixtures("jars")
@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        ({"databaseName": "MQ"}, "SID=MQ"),
        ({"serviceName": "mq.example"}, "SERVICE_NAME=mq.example"),
        ({"databaseName": "MQ", "serviceName": "mq"}, "SERVICE_NAME=mq"),
    ],
)
def test_a_data_source_of_activemq_reaches_the_same(
    tmp_path: Path, properties: dict[str, str], wanted: str
) -> None:
    with OracleListener() as listener:
        given: dict[str, Any] = {"serverName": "127.0.0.1", "portNumber": listener.port, "driverType": "thin"}
        given |= properties
        made = java.data_source("jdbc:oracle:thin:@x", "oracle.jdbc.pool.OracleDataSource", given)
        made.setUser("me")
        made.setPassword("p")
        java.refused_by(made)
        text = "".join(f'<property name="{name}" value="{value}"/>' for name, value in given.items())
        (tmp_path / "activemq.xml").write_text(BEAN.format(properties=text))
        url = load_config(tmp_path / "activemq.xml", environment={}).data_source.url
        assert url is not None
        connect(*adapter_for(url))

    assert listener.wanted == [wanted] * 2


@pytest.mark.parametrize("rest", ["db", "db:1521", "//db:1521/"])
def test_a_url_without_a_database_is_refused(rest: str) -> None:
    """The driver would look for a file of names."""
    with pytest.raises(ConfigurationError, match="write jdbc:oracle:thin:@//host:1521/service"):
        adapter_for(f"jdbc:oracle:thin:@{rest}")


@pytest.mark.parametrize("number", [12505, 12514, 12516, 12518, 12520, 12528, 0])
def test_a_listener_that_refuses_is_a_lost_connection(number: int) -> None:
    """Also one that closes the connection: the database is starting, or has no room."""
    with OracleListener(number) as listener:
        adapter, url = adapter_for(f"jdbc:oracle:thin:@//127.0.0.1:{listener.port}/mq")
        assert adapter.classify(connect(adapter, url)) is Failure.DISCONNECTED
    assert listener.wanted


def test_nothing_that_listens_is_a_lost_connection() -> None:
    adapter, url = adapter_for(f"jdbc:oracle:thin:@//127.0.0.1:{free_port()}/mq")
    assert adapter.classify(connect(adapter, url)) is Failure.DISCONNECTED


def of_server(number: int) -> Exception:
    """Return the driver's error for the server's."""
    error = errors._Error(f"ORA-{number:05}: said by the server", code=number)
    made: Exception = error.exc_type(error)
    return made


CLOSED = [number for number, to in errors.ERR_ORACLE_ERROR_XREF.items() if to == errors.ERR_CONNECTION_CLOSED]


@pytest.mark.parametrize("number", sorted({*CLOSED, *errors.ERR_RECOVERABLE_ERROR_CODES}))
def test_what_the_driver_calls_recoverable_is_a_lost_connection(number: int) -> None:
    assert adapter_class("oracle")().classify(of_server(number)) is Failure.DISCONNECTED


@pytest.mark.parametrize(
    ("number", "failure"),
    [
        (1, Failure.DUPLICATE),
        (60, Failure.TRANSIENT),
        (8177, Failure.TRANSIENT),
        (942, Failure.NO_TABLE),
        (1017, Failure.REFUSED),
        (1005, Failure.REFUSED),
        (1400, Failure.BAD_VALUE),
        (12899, Failure.BAD_VALUE),
        (1653, Failure.FULL),
        (22835, Failure.TOO_LARGE),
        (933, Failure.OTHER),
    ],
)
def test_the_servers_errors(number: int, failure: Failure) -> None:
    assert adapter_class("oracle")().classify(of_server(number)) is failure

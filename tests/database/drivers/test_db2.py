"""DB2: what its JDBC driver, the only one there, makes of our URLs, and its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jdbcstore import load_config
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.jdbc.jvm import USUAL_JARS, driver_for, find_jar
from jdbcstore.database.adapters.registry import adapter_class, adapter_for
from tests.support.drivers import java
from tests.support.drivers.drda import Db2Listener
from tests.support.ports import free_port

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("jars")]

BEAN = """
<beans xmlns="http://www.springframework.org/schema/beans">
  <bean id="ds" class="com.ibm.db2.jcc.DB2SimpleDataSource">{properties}</bean>
  <broker><persistenceAdapter><jdbcPersistenceAdapter dataSource="#ds"/></persistenceAdapter></broker>
</beans>
"""


def error_of(text: str) -> tuple[str, Exception]:
    """Return the URL that the driver is given for this one, and the error with which it does not connect."""
    _, target = adapter_for(text)
    url = str(target.query["url"])
    return url, java.refused(url)


def test_its_file_has_one_of_the_usual_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDBCSTORE_JDBC_JARS", str(java.JARS / "jcc.jar"))
    assert find_jar("db2") == java.JARS / "jcc.jar"
    assert "jcc.jar" in USUAL_JARS["db2"]
    assert driver_for("jdbc:db2://db:50000/MQ").getClass().getName() == "com.ibm.db2.jcc.DB2Driver"


@pytest.mark.parametrize(
    "properties",
    [
        "",
        ":user=me;password=p;",
        ":user=me;password=p;currentSchema=MQ;",
        ":currentSchema=MQ;user=me;password=p;",
        ":currentSchema=MQ;user=me;password=p;readOnly=true;",
        ":currentSchema=MQ;",
    ],
)
def test_a_url_without_its_login_is_still_one(properties: str) -> None:
    """Each property ends with a semicolon, or the driver does not take the URL."""
    with Db2Listener() as listener:
        url, error = error_of(f"jdbc:db2://127.0.0.1:{listener.port}/SHOP{properties}")
    assert listener.wanted == ["SHOP"]
    assert "password" not in url
    assert adapter_class("db2")().classify(error) is Failure.DISCONNECTED


def test_a_data_source_of_activemq_reaches_the_same(tmp_path: Path) -> None:
    with Db2Listener() as listener:
        given: dict[str, Any] = {
            "serverName": "127.0.0.1",
            "portNumber": listener.port,
            "databaseName": "SHOP",
        }
        made = java.data_source(
            "jdbc:db2://x/y", "com.ibm.db2.jcc.DB2SimpleDataSource", {**given, "driverType": 4, "user": "me"}
        )
        made.setPassword("p")
        java.refused_by(made)
        text = "".join(f'<property name="{name}" value="{value}"/>' for name, value in given.items())
        (tmp_path / "activemq.xml").write_text(BEAN.format(properties=text))
        url = load_config(tmp_path / "activemq.xml", environment={}).data_source.url
        assert url is not None
        error_of(url)
    assert listener.wanted == ["SHOP"] * 2


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_nothing_that_listens_is_a_lost_connection(host: str) -> None:
    _, error = error_of(f"jdbc:db2://{host}:{free_port()}/SHOP:user=me;password=p;")
    assert adapter_class("db2")().classify(error) is Failure.DISCONNECTED


def test_a_url_that_the_driver_does_not_take_is_not_a_lost_connection() -> None:
    _, error = error_of("jdbc:db2://127.0.0.1:50000/SHOP:currentSchema=MQ")
    assert "Invalid database URL syntax" in str(error)
    assert adapter_class("db2")().classify(error) is Failure.OTHER

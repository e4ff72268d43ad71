"""DataSource beans of any class: the URL, the login, and the size of the pool."""

from __future__ import annotations

from collections.abc import Callable

from jdbcstore.config.fields import snake
from jdbcstore.config.given import Given, Section
from jdbcstore.config.reasons import DATA_SOURCE
from jdbcstore.config.xml.beans import Bean, Document, Value

_URL = ("url", "jdbcUrl", "URL", "jdbcURL")
_LOGIN = {**dict.fromkeys(("username", "user", "userName"), "user"), "password": "password"}
_POOL = ("maxTotal", "maxActive", "maximumPoolSize", "maxPoolSize", "maxConnections")
_PARTS = {
    **dict.fromkeys(("serverName", "server", "host", "serverNames"), "server"),
    **dict.fromkeys(("portNumber", "port", "portNumbers"), "port"),
    **dict.fromkeys(("databaseName", "database", "serviceName", "SID"), "database"),
    **dict.fromkeys(("createDatabase", "driverType"), "kind"),
}
"""Parts of a URL that a bean may have instead of a URL."""
_WRAPPED = ("targetDataSource", "dataSource", "constructor-arg")
"""Properties in which a bean wraps another: Spring's proxies, Hikari's configuration."""

Parts = dict[str, str]


def _address(parts: Parts, default_port: int) -> str:
    port = parts.get("port", "0")
    # PostgreSQL's DataSources take 0 for the default.
    return f"{parts.get('server', 'localhost')}:{default_port if port == '0' else port}"


def _network(subprotocol: str, port: int, *, before: str = "/") -> Callable[[Parts], str]:
    def url(parts: Parts) -> str:
        return f"jdbc:{subprotocol}://{_address(parts, port)}{before}{parts.get('database', '')}"

    return url


def _embedded_derby(parts: Parts) -> str:
    create = ";create=true" if parts.get("kind") == "create" else ""
    return f"jdbc:derby:{parts.get('database', 'derbydb')}{create}"


def _oracle(parts: Parts) -> str:
    return f"jdbc:oracle:{parts.get('kind', 'thin')}:@{_address(parts, 1521)}:{parts.get('database', '')}"


_BUILDERS = {
    **dict.fromkeys(
        ("EmbeddedDataSource", "EmbeddedConnectionPoolDataSource", "EmbeddedXADataSource"), _embedded_derby
    ),
    **dict.fromkeys(("ClientDataSource", "ClientConnectionPoolDataSource"), _network("derby", 1527)),
    **dict.fromkeys(
        ("MysqlDataSource", "MysqlConnectionPoolDataSource", "MysqlXADataSource"), _network("mysql", 3306)
    ),
    **dict.fromkeys(("MariaDbDataSource", "MariaDbPoolDataSource"), _network("mariadb", 3306)),
    **dict.fromkeys(
        ("PGPoolingDataSource", "PGSimpleDataSource", "PGConnectionPoolDataSource", "PGXADataSource",
         "Jdbc3PoolingDataSource"),
        _network("postgresql", 5432),
    ),
    **dict.fromkeys(("OracleDataSource", "OracleConnectionPoolDataSource", "OracleXADataSource"), _oracle),
    **dict.fromkeys(
        ("SQLServerDataSource", "SQLServerConnectionPoolDataSource"),
        _network("sqlserver", 1433, before=";databaseName="),
    ),
    "JtdsDataSource": _network("jtds:sqlserver", 1433),
    **dict.fromkeys(("DB2SimpleDataSource", "DB2DataSource"), _network("db2", 50000)),
}  # fmt: skip
"""The URLs of DataSource classes that have their parts, by the last part of the class's name."""


def read_data_source(document: Document, value: Value) -> Section:
    """The section of the DataSource that a property refers to, with ``pool_size`` if it bounds its pool.

    :raises ConfigurationError: the property is not a reference
    """
    bean = document.resolve(value)
    if bean is None:
        raise document.error(value, f'must be a reference such as {value.name}="#mysql-ds"; correct it')
    return _read(document, bean)


def _read(document: Document, bean: Bean) -> Section:
    for name in _WRAPPED:
        target = document.resolve(bean.values.get(name))
        if target is not None:
            return _read(document, target)
    section: Section = {}
    parts: Parts = {}
    for name, value in bean.values.items():
        if value.text is None and name not in DATA_SOURCE:
            document.ignore(value, DATA_SOURCE["connectionProperties"])
        elif name in _PARTS:
            parts[_PARTS[name]] = document.text(value, value.text)
        elif name in _URL:
            section["url"] = document.scalar(value)
        elif name in _LOGIN:
            section[_LOGIN[name]] = document.scalar(value)
        elif name in _POOL:
            _take_pool_size(document, value, section)
        else:
            document.report(bean, value, DATA_SOURCE, map(snake, (*_URL, *_LOGIN, *_POOL, *_PARTS)))
    section.setdefault("url", _built_url(document, bean, parts))
    return section


def _take_pool_size(document: Document, value: Value, section: Section) -> None:
    """All connections but the writer's are for reading; a negative number means unbounded."""
    text = document.text(value, value.text)
    try:
        size = int(text)
    except ValueError:
        raise document.error(value, f"must be a whole number, not {text!r}") from None
    if size > 0:
        section["pool_size"] = Given(max(1, size - 1), document.place(value))


def _built_url(document: Document, bean: Bean, parts: Parts) -> Given:
    place = document.place(bean, bean.class_name)
    build = _BUILDERS.get(bean.class_name)
    if build is not None:
        return Given(build(parts), place, text=True)
    if "jndi" in bean.kind.lower():
        problem = "the DataSource comes from JNDI, which only a Java container has; give its url"
    else:
        problem = f"the DataSource {bean.kind or 'without a class'} does not have a url; add one, or give it"
    return Given(None, place, problem=f"{problem} with --url or JDBCSTORE_URL")

"""DataSource beans: the URL, the login and the size of the pool, whatever class they are of."""

from __future__ import annotations

from collections.abc import Callable

from jdbcstore.config.fields import snake
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.reasons import DATA_SOURCE
from jdbcstore.config.xml.beans import Bean, Document, Value

_URL = ("url", "jdbcUrl", "URL", "jdbcURL")
_LOGIN = {
    **dict.fromkeys(("username", "user", "userName"), "user"),
    "password": "password",
}
_POOL = ("maxTotal", "maxActive", "maximumPoolSize", "maxPoolSize", "maxConnections")
_PARTS = {
    **dict.fromkeys(("serverName", "server", "host", "serverNames"), "server"),
    **dict.fromkeys(("portNumber", "port", "portNumbers"), "port"),
    **dict.fromkeys(("databaseName", "database", "serviceName", "SID"), "database"),
    **dict.fromkeys(("createDatabase", "driverType"), "kind"),
}
"""What a URL is made of where none is given."""

_WRAPPED = ("targetDataSource", "dataSource", "constructor-arg")
"""What a bean may have around the one that connects: Spring's proxies, Hikari's configuration."""

Parts = dict[str, str]


def _address(parts: Parts, default_port: int) -> str:
    port = parts.get("port", "0")
    # PostgreSQL's DataSources take 0 for the default.
    return f"{parts.get('server', 'localhost')}:{default_port if port == '0' else port}"


def _network(subprotocol: str, port: int, *, before: str = "/") -> Callable[[Parts], str]:
    def url(parts: Parts) -> str:
        address = _address(parts, port)
        return f"jdbc:{subprotocol}://{address}{before}{parts.get('database', '')}"

    return url


def _embedded_derby(parts: Parts) -> str:
    create = ";create=true" if parts.get("kind") == "create" else ""
    return f"jdbc:derby:{parts.get('database', 'derbydb')}{create}"


def _oracle(parts: Parts) -> str:
    address = _address(parts, 1521)
    return f"jdbc:oracle:{parts.get('kind', 'thin')}:@{address}:{parts.get('database', '')}"


_BUILDERS = {
    "EmbeddedDataSource": _embedded_derby,
    "EmbeddedConnectionPoolDataSource": _embedded_derby,
    "EmbeddedXADataSource": _embedded_derby,
    "ClientDataSource": _network("derby", 1527),
    "ClientConnectionPoolDataSource": _network("derby", 1527),
    "MysqlDataSource": _network("mysql", 3306),
    "MysqlConnectionPoolDataSource": _network("mysql", 3306),
    "MysqlXADataSource": _network("mysql", 3306),
    "MariaDbDataSource": _network("mariadb", 3306),
    "MariaDbPoolDataSource": _network("mariadb", 3306),
    "PGPoolingDataSource": _network("postgresql", 5432),
    "PGSimpleDataSource": _network("postgresql", 5432),
    "PGConnectionPoolDataSource": _network("postgresql", 5432),
    "PGXADataSource": _network("postgresql", 5432),
    "Jdbc3PoolingDataSource": _network("postgresql", 5432),
    "OracleDataSource": _oracle,
    "OracleConnectionPoolDataSource": _oracle,
    "OracleXADataSource": _oracle,
    "SQLServerDataSource": _network("sqlserver", 1433, before=";databaseName="),
    "SQLServerConnectionPoolDataSource": _network("sqlserver", 1433, before=";databaseName="),
    "JtdsDataSource": _network("jtds:sqlserver", 1433),
    "DB2SimpleDataSource": _network("db2", 50000),
    "DB2DataSource": _network("db2", 50000),
}


def read_data_source(document: Document, bean: Bean) -> Section:
    """The section of a data source, and ``pool_size`` where the bean bounds its pool."""
    for name in _WRAPPED:
        target = document.referred(bean.values[name]) if name in bean.values else None
        if target is not None:
            return read_data_source(document, target)
    section: Section = {}
    parts: Parts = {}
    for name, value in bean.values.items():
        if name in _PARTS and value.text is not None:
            parts[_PARTS[name]] = document.text(value.line, name, value.text)
        else:
            _take(document, bean, name, value, section)
    if "url" not in section:
        section["url"] = _built_url(document, bean, parts)
    return section


def _take(document: Document, bean: Bean, name: str, value: Value, section: Section) -> None:
    if value.text is None:
        document.note(Kind.IGNORED, value.line, name, DATA_SOURCE["connectionProperties"])
    elif name in _URL:
        section["url"] = document.given(value.line, name, value.text)
    elif name in _LOGIN:
        section[_LOGIN[name]] = document.given(value.line, name, value.text)
    elif name in _POOL:
        _take_pool_size(document, name, value, section)
    else:
        document.tell(bean, name, value, DATA_SOURCE, map(snake, (*_URL, *_LOGIN, *_POOL, *_PARTS)))


def _take_pool_size(document: Document, name: str, value: Value, section: Section) -> None:
    """All connections but the writer's are for reading; a negative number is no bound."""
    text = document.text(value.line, name, value.text or "")
    try:
        size = int(text)
    except ValueError:
        raise document.wrong(value.line, f"{text!r} is no whole number", name) from None
    if size > 0:
        section["pool_size"] = Given(max(1, size - 1), document.place(value.line, name))


def _built_url(document: Document, bean: Bean, parts: Parts) -> Given:
    place = document.place(bean.line, bean.class_name)
    build = _BUILDERS.get(bean.class_name)
    if build is not None:
        return Given(build(parts), place, text=True)
    if "jndi" in bean.kind.lower():
        problem = (
            "the DataSource comes from JNDI, which only a Java container has; give its url in another way"
        )
    else:
        problem = (
            f"the DataSource {bean.kind or 'without a class'} has no url; add one, or give it in another way"
        )
    return Given(None, place, problem=f"{problem}: --url or JDBCSTORE_URL")

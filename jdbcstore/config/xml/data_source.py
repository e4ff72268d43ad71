"""DataSource beans of any class: the URL, the login, and the size of the pool."""

from __future__ import annotations

from jdbcstore.config.fates import FATES
from jdbcstore.config.given import Given, Section
from jdbcstore.config.xml.beans import Bean, Document, Value

_ELEMENT = "DataSource"
_URL = ("url", "jdbcUrl", "URL", "jdbcURL")
_LOGIN = {**dict.fromkeys(("username", "user", "userName"), "user"), "password": "password"}
_POOL = ("maxTotal", "maxActive", "maximumPoolSize", "maxPoolSize", "maxConnections")
_PARTS = {
    **dict.fromkeys(("serverName", "server", "host", "serverNames"), "server"),
    **dict.fromkeys(("portNumber", "port", "portNumbers"), "port"),
    **dict.fromkeys(("databaseName", "database", "SID"), "database"),
    "serviceName": "service",
    **dict.fromkeys(("createDatabase", "driverType"), "kind"),
}
"""Parts of a URL that a bean may have instead of a URL."""
_WRAPPED = ("targetDataSource", "dataSource", "constructor-arg")
"""Properties in which a bean wraps another: Spring's proxies, Hikari's configuration."""

_URLS = {
    kind: (url, port)
    for (url, port), kinds in {
        ("jdbc:derby:{database}{create}", 0):
            "EmbeddedDataSource EmbeddedConnectionPoolDataSource EmbeddedXADataSource",
        ("jdbc:derby://{server}:{port}/{database}", 1527): "ClientDataSource ClientConnectionPoolDataSource",
        ("jdbc:mysql://{server}:{port}/{database}", 3306):
            "MysqlDataSource MysqlConnectionPoolDataSource MysqlXADataSource",
        ("jdbc:mariadb://{server}:{port}/{database}", 3306): "MariaDbDataSource MariaDbPoolDataSource",
        ("jdbc:postgresql://{server}:{port}/{database}", 5432):
            "PGPoolingDataSource PGSimpleDataSource PGConnectionPoolDataSource"
            " PGXADataSource Jdbc3PoolingDataSource",
        ("jdbc:oracle:{kind}:@{server}:{port}{name}", 1521):
            "OracleDataSource OracleConnectionPoolDataSource OracleXADataSource",
        ("jdbc:sqlserver://{server}:{port};databaseName={database}", 1433):
            "SQLServerDataSource SQLServerConnectionPoolDataSource",
        ("jdbc:jtds:sqlserver://{server}:{port}/{database}", 1433): "JtdsDataSource",
        ("jdbc:db2://{server}:{port}/{database}", 50000): "DB2SimpleDataSource DB2DataSource",
    }.items()
    for kind in kinds.split()
}  # fmt: skip
"""URLs and default ports of DataSource classes that have parts, by the last part of the class's name."""


def read_data_source(document: Document, value: Value) -> Section:
    """Read the DataSource that a property refers to, with ``pool_size`` if it bounds its pool.

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
    parts: dict[str, str] = {}
    for name, value in bean.values.items():
        if value.text is None and (_ELEMENT, name) not in FATES:
            document.tell(value, FATES[_ELEMENT, "connectionProperties"], "")
        elif name in _PARTS:
            parts[_PARTS[name]] = document.text(value, value.text)
        elif name in _URL:
            section["url"] = document.scalar(value)
        elif name in _LOGIN:
            section[_LOGIN[name]] = document.scalar(value)
        elif name in _POOL:
            _read_pool_size(document, value, section)
        else:
            known = (*_URL, *_LOGIN, *_POOL, *_PARTS)
            document.report(bean, value, known, element=_ELEMENT, is_harmless=True)
    section.setdefault("url", _built_url(document, bean, parts))
    return section


def _read_pool_size(document: Document, value: Value, section: Section) -> None:
    """Read the pool's size, which includes the writer's connection; a negative one is unbounded."""
    text = document.text(value, value.text)
    try:
        size = int(text)
    except ValueError:
        raise document.error(value, f"must be a whole number, not {text!r}") from None
    if size > 0:
        section["pool_size"] = Given(max(1, size - 1), document.place(value))


def _built_url(document: Document, bean: Bean, parts: dict[str, str]) -> Given:
    place = document.place(bean, bean.class_name)
    if bean.class_name in _URLS:
        url, port = _URLS[bean.class_name]
        given = {"server": "localhost", "database": "" if port else "derbydb", "kind": "thin", **parts}
        # PostgreSQL's DataSources take 0 for the default.
        given["port"] = parts["port"] if parts.get("port", "0") != "0" else str(port)
        # Oracle's driver prefers the service to the SID.
        given["name"] = f"/{given['service']}" if "service" in given else f":{given['database']}"
        given["create"] = ";create=true" if given["kind"] == "create" else ""
        return Given(url.format(**given), place, text=True)
    if "jndi" in bean.kind.lower():
        problem = "the DataSource comes from JNDI, which only a Java container has; give its url"
    else:
        problem = f"the DataSource {bean.kind or 'without a class'} does not have a url; add one, or give it"
    return Given(None, place, problem=f"{problem} with --url or JDBCSTORE_URL")

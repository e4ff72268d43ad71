"""Addresses for JDBC drivers, so that they reach the database that the Python driver has reached.

Each option of the Python driver is translated, has no effect on the result, or is refused: a lost
option may have named the server or the schema, or have protected the connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qsl, quote, urlencode

from sqlalchemy import URL
from sqlalchemy.util import asbool

from jdbcstore.errors import ConfigurationError

_INSTEAD = "or read with DuckDB, read_arrow or format('jdbcstore'), which use the Python driver"


@dataclass(frozen=True, slots=True)
class JdbcAddress:
    """A JDBC URL, without a login; and the properties of its connections."""

    url: str
    properties: dict[str, str] = field(repr=False)
    """With the user and the password. A driver takes them as they are, unlike parts of a URL."""


def _refuse(option: str, reason: str, instead: str = f"; {_INSTEAD}") -> NoReturn:
    raise ConfigurationError(f"Spark cannot read with {option}: {reason}{instead}", option="url")


def _check(given: Mapping[str, Any], known: frozenset[str]) -> None:
    for name in sorted(given.keys() - known):
        # Without the value, which may be a secret.
        _refuse(
            f"the option {name} of the database URL",
            "its JDBC driver does not have it, and may without it read other tables, or unprotected; leave it"
            " out of the URL that Spark is given",
        )


def _login(user: str | None, password: str | None) -> dict[str, str]:
    login = {"user": user, "password": password}
    return {name: value for name, value in login.items() if value}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refuse_socket(option: str) -> NoReturn:
    _refuse(option, "JDBC drivers do not connect through Unix sockets; write the host and the port")


_OF_JAVA = frozenset(
    {
        *(
            "user",
            "username",
            "password",
            "applicationname",
            "connecttimeout",
            "sockettimeout",
            "logintimeout",
        ),
        *("tcpkeepalive", "autoreconnect", "relaxautocommit", "useunicode", "characterencoding"),
        *("rewritebatchedstatements", "rewritebatchedinserts", "cacheprepstmts", "useserverprepstmts"),
        *("preparethreshold", "servertimezone", "usecompression", "permitmysqlscheme"),
        *("allowpublickeyretrieval", "createdatabaseifnotexist", "stringtype", "connectionattributes"),
    }
)
"""Properties of JDBC URLs, in lower case, without an effect on the result."""
_OFF = ("false", "disable", "disabled", "prefer", "preferred", "allow")


def check_jdbc(text: str) -> None:
    """Check the properties of a JDBC URL, of which the Python driver takes the login only.

    :raises ConfigurationError: one of them may name other tables, or protects the connection
    """
    for name, value in parse_qsl(text.partition("?")[2], keep_blank_values=True):
        if name.lower() not in _OF_JAVA and value.lower() not in _OFF:
            _refuse(
                f"the property {name} of a JDBC URL",
                "the Python driver, which finds the tables, ignores it; write a URL of SQLAlchemy, such as"
                " postgresql://host/database?sslmode=verify-full&options=-csearch_path%3Dmq",
                "; leave it out if it does not matter",
            )


_OF_SQLITE = frozenset(
    {
        *(
            "cache",
            "cached_statements",
            "check_same_thread",
            "detect_types",
            "isolation_level",
            "mode",
            "psow",
        ),
        *("timeout", "uri"),
    }
)
"""Options of SQLite without an effect on the result."""
_OF_SQLITE_FILES = ("immutable", "nolock")
"""Parameters of the file's URI."""


def of_sqlite(file: str, query: Mapping[str, Any]) -> JdbcAddress:
    """Return the address of an SQLite file, from its path and the options of its URL."""
    _check(query, _OF_SQLITE.union(_OF_SQLITE_FILES))
    # The last connection to close the file, or the first after a kill, locks it for a moment. The mode is
    # read-only, with the file named by a URI: a ? in a plain path would begin the options.
    options = {"open_mode": "65", "busy_timeout": "60000"}
    options |= {name: str(query[name]) for name in _OF_SQLITE_FILES if name in query}
    return JdbcAddress(f"jdbc:sqlite:file:{quote(os.path.realpath(file))}?{urlencode(options)}", {})


_OF_LIBPQ = frozenset(
    {
        *("application_name", "client_encoding", "connect_timeout", "fallback_application_name"),
        *("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "tcp_user_timeout"),
        *("load_balance_hosts", "max_protocol_version", "min_protocol_version", "sslcompression"),
        *("sslnegotiation", "sslsni"),
        # What these name is among the other parameters.
        *("passfile", "service", "servicefile"),
    }
)
"""Parameters of libpq without an effect on the result."""
_SAME_IN_JAVA = {"gssencmode": "gssEncMode", "krbsrvname": "kerberosServerName", "options": "options"}
_TARGETS = {
    "any": "any",
    "primary": "primary",
    "read-write": "primary",
    "standby": "secondary",
    "read-only": "secondary",
    "prefer-standby": "preferSecondary",
}
"""pgJDBC's words for ``target_session_attrs``."""
_TRANSLATED = frozenset(
    {
        *_SAME_IN_JAVA,
        *("dbname", "host", "hostaddr", "port", "sslmode", "sslrootcert"),
        *("target_session_attrs", "user"),
    }
)
_WITHOUT_EFFECT = {"channel_binding": ("disable", "prefer"), "sslcertmode": ("disable", "allow")}
_CERTIFICATES = ("sslcert", "sslkey", "sslpassword")


def of_libpq(given: Mapping[str, str], password: str | None = None) -> JdbcAddress:
    """Return the address of a PostgreSQL database.

    :param given: the parameters in effect, from the URL, the environment and service files, and the
        connection: dbname, user, port and, of several hosts, the connected one
    :raises ConfigurationError: JDBC does not have one of them
    """
    # Each connection of psycopg has an address beside its name.
    host = given.get("host") or given.get("hostaddr") or "localhost"
    if host.startswith(("/", "@")):
        _refuse_socket(f"the socket {host}")
    for name in _CERTIFICATES:
        if name in given:
            _refuse(
                name, "its JDBC driver does not read such keys; use a login without a client's certificate"
            )
    without = {name for name, values in _WITHOUT_EFFECT.items() if given.get(name) in values}
    _check(given, _OF_LIBPQ | _TRANSLATED | without)
    # Results are binary only for server-prepared statements: prepare at the first execution.
    options = {"prepareThreshold": "-1", "readOnly": "true", "readOnlyMode": "always"}
    options["ApplicationName"] = "jdbcstore analytics"
    properties = {_SAME_IN_JAVA[name]: value for name, value in given.items() if name in _SAME_IN_JAVA}
    properties["sslmode"] = _ssl_mode(given)
    if "sslrootcert" in given:
        properties["sslrootcert"] = str(Path(given["sslrootcert"]).absolute())
    if "target_session_attrs" in given:
        properties["targetServerType"] = _TARGETS[given["target_session_attrs"]]
    place = f"{_bracketed(host)}:{given['port']}/{quote(given['dbname'], safe='')}"
    return JdbcAddress(
        f"jdbc:postgresql://{place}?{urlencode(options)}", properties | _login(given.get("user"), password)
    )


def _ssl_mode(given: Mapping[str, str]) -> str:
    mode = given.get("sslmode", "prefer")
    root = given.get("sslrootcert")
    if root == "system":
        _refuse("sslrootcert=system", "its JDBC driver needs a file of certificates; name one")
    # libpq checks the certificate then; pgJDBC does so only on request.
    present = Path("~/.postgresql/root.crt").expanduser().exists()
    return "verify-ca" if mode == "require" and (root or present) else mode


_OF_PYMYSQL = frozenset(
    {
        *(
            "autocommit",
            "binary_prefix",
            "charset",
            "collation",
            "compress",
            "connect_timeout",
            "local_infile",
        ),
        *("max_allowed_packet", "program_name", "read_timeout", "use_unicode", "write_timeout"),
        # What these say is known from the connection.
        *("database", "db", "host", "passwd", "password", "port", "user"),
    }
)
"""Options of PyMySQL without an effect on the result."""
_TLS = frozenset({"ssl_ca", "ssl_check_hostname"})
_FILES = ("read_default_file", "read_default_group")
_OF_ODBC = frozenset({"charset", "driver", "port"})


@dataclass(frozen=True, slots=True)
class MysqlEndpoint:
    """Host, port and database of a connection to MySQL or MariaDB."""

    host: str
    port: int
    database: str
    user: str | None
    password: str | None = field(repr=False)


MysqlAddress = Callable[[MysqlEndpoint, Mapping[str, Any]], JdbcAddress]
"""The address as one JDBC driver reads it, with PyMySQL's options for TLS."""


def of_pymysql(place: MysqlEndpoint, query: Mapping[str, Any], written: MysqlAddress) -> JdbcAddress:
    """Return the address of a database of MySQL or MariaDB, from the options of PyMySQL's URL.

    :param written: for one JDBC driver
    :raises ConfigurationError: JDBC does not have one of the options
    """
    if "unix_socket" in query:
        _refuse_socket("unix_socket")
    for name in _FILES:
        if name in query:
            _refuse(name, "its JDBC driver does not read such files; write host, user and ssl_ca in the URL")
    _check(query, _OF_PYMYSQL | _TLS)
    return written(place, {name: value for name, value in query.items() if name in _TLS})


def of_odbc(url: URL, written: MysqlAddress) -> JdbcAddress:
    """Return the address of a database of MySQL or MariaDB, from the URL of an ODBC connection.

    :raises ConfigurationError: JDBC does not have one of the options, or they name a data source
    """
    query = {name.lower(): value for name, value in url.query.items()}
    for name in ("dsn", "odbc_connect"):
        if name in query or (name == "dsn" and not url.database):
            _refuse(f"ODBC's {name}", "JDBC does not know its name; write the host and the database")
    _check(query, _OF_ODBC)
    port = int(url.port or str(query.get("port", 3306)))
    password = None if url.password is None else str(url.password)
    place = MysqlEndpoint(url.host or "localhost", port, str(url.database), url.username, password)
    return written(place, {})


def for_mariadb(place: MysqlEndpoint, query: Mapping[str, Any]) -> JdbcAddress:
    """Return the address of a MariaDB database for MariaDB's driver."""
    return _for_mariadb_driver(place, query, "tx")


def for_mysql_with_mariadb(place: MysqlEndpoint, query: Mapping[str, Any]) -> JdbcAddress:
    """Return the address of a MySQL database for MariaDB's driver."""
    return _for_mariadb_driver(place, query, "transaction")


def _for_mariadb_driver(place: MysqlEndpoint, query: Mapping[str, Any], variables: str) -> JdbcAddress:
    # Spark has no dialect for jdbc:mariadb: it would quote names as strings, and silently read the names.
    url = _mysql_url(place, f"permitMysqlScheme&sessionVariables={_session(variables)}")
    tls: dict[str, str] = {}
    # As strict as PyMySQL: only a CA verifies the certificate.
    if "ssl_ca" in query:
        tls = {"useSsl": "true", "serverSslCert": _ca(query)}
        if not _checks_host(query):
            tls["disableSslHostnameVerification"] = "true"
    elif query:
        tls = {"useSsl": "true", "trustServerCertificate": "true"}
    return JdbcAddress(url, tls | _login(place.user, place.password))


CERTIFICATES = "jdbcstoreCertificates"
"""Property with a file of certificates in PEM, where a driver reads key stores; see ``StoreDriver.java``."""


def for_connector_j(place: MysqlEndpoint, query: Mapping[str, Any]) -> JdbcAddress:
    """Return the address of a MySQL database for MySQL's own driver, which encrypts if the server does."""
    # Without TLS the password is encrypted with the server's key, as by PyMySQL.
    url = _mysql_url(place, f"allowPublicKeyRetrieval=true&sessionVariables={_session('transaction')}")
    tls: dict[str, str] = {}
    if "ssl_ca" in query:
        mode = "VERIFY_IDENTITY" if _checks_host(query) else "VERIFY_CA"
        tls = {"sslMode": mode, CERTIFICATES: _ca(query)}
    elif query:
        tls = {"sslMode": "REQUIRED"}
    return JdbcAddress(url, tls | _login(place.user, place.password))


def _mysql_url(place: MysqlEndpoint, options: str) -> str:
    # MariaDB's driver does not decode names. Statements name the database too.
    database = place.database if quote(place.database, safe="$") == place.database else ""
    return f"jdbc:mysql://{_bracketed(place.host)}:{place.port}/{database}?{options}"


def _session(variables: str) -> str:
    """Return the session's settings; the server's variables for transactions have this prefix."""
    return f"{variables}_read_only=1,{variables}_isolation='READ-COMMITTED'"


def _ca(query: Mapping[str, Any]) -> str:
    return str(Path(str(query["ssl_ca"])).absolute())


def _checks_host(query: Mapping[str, Any]) -> bool:
    return asbool(query.get("ssl_check_hostname", True))

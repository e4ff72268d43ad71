"""Database URLs, SQLAlchemy's and JDBC's: parsed, and displayed without their secrets."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote

from sqlalchemy import URL

from jdbcstore.errors import ConfigurationError

_SECRET = re.compile("pass|pwd|secret|token|odbc_connect", re.IGNORECASE)
_SECRET_PROPERTY = re.compile(
    r"([;:?&,(][^;:?&,=/]*(?:pass|pwd|secret|token|key)[^=;&]*=)[^;&,)]*", re.IGNORECASE
)
_LOGIN = re.compile(r"(jdbc:[a-z0-9_-]+:)[^@]*@", re.IGNORECASE)
"""The part before an @ may be a user and a password."""
_PROPERTY = re.compile(r"([;?&:])(user|username|password)=([^;&]*)([;&]?)", re.IGNORECASE)
_JDBC = re.compile(
    r"jdbc:(?P<sub>[a-z0-9]+):(?:(?:sequential|failover|replication):(?=//))?"
    r"(?://(?P<hosts>(?:(?:\[[^\]]+\]|[^:/?,]*)(?::\d{1,5})?,)+)?"
    r"(?P<host>\[[^\]]+\]|[^:/?,]*)(?::(?P<port>\d{1,5}))?(?:/(?P<db>[^?]*))?)?"
    r"(?P<rest>[^?]*)(?:\?(?P<query>.*))?",
    re.IGNORECASE,
)
_SUBPROTOCOL = re.compile(r"jdbc:([a-z0-9_-]+):", re.IGNORECASE)
_WRITABLE = {"postgresql": {"target_session_attrs": "read-write"}}
"""The parameters with which a driver passes over standbys by itself."""
_HOST = re.compile(r"(?:\[(?P<ip6>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d{1,5}))?")
URL_PROPERTY = "url"
"""The query parameter that holds the JDBC URL, for a Java driver."""


def is_jdbc(text: str) -> bool:
    return text.lower().startswith("jdbc:")


def subprotocol(text: str) -> str:
    """``derby`` for ``jdbc:derby:...``.

    :raises ConfigurationError: the text is not a JDBC URL
    """
    match = _SUBPROTOCOL.match(text)
    if match is None:
        raise _unreadable()
    return match[1].lower()


def from_jdbc(text: str, drivername: str) -> URL:
    """Return the URL of a Python driver for a JDBC URL. User and password may be properties after the ``?``.

    :raises ConfigurationError: it is not of the form ``jdbc:vendor://host:port/database``
    """
    match = _JDBC.fullmatch(text)
    if match is None or (match["host"] and match["rest"]) or "//" in match["rest"]:
        raise _unreadable()
    # Other properties are for the Java driver, and unknown to a Python driver.
    properties = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    host = (match["host"] or "").strip("[]")
    if match["hosts"]:
        last = match["host"] + (f":{match['port']}" if match["port"] else "")
        hosts = {"host": (*match["hosts"].rstrip(",").split(","), last)}
        return URL.create(
            drivername,
            username=properties.get("user"),
            password=properties.get("password"),
            database=match["db"] or None,
            query={**hosts, **_WRITABLE.get(drivername.partition("+")[0], {})},
        )
    return URL.create(
        drivername,
        username=properties.get("user"),
        password=properties.get("password"),
        host=host or None,
        port=int(match["port"]) if match["port"] else None,
        database=match["db"] or match["rest"] or None,
    )


def host_and_port(text: str, default: int) -> tuple[str, int]:
    """Return the parts of ``host:port``, or of a host alone.

    :raises ConfigurationError: it is neither
    """
    match = _HOST.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            f"{text!r} is not a host: write ?host=one:3306&host=other:3306", option="url"
        )
    return match["ip6"] or match["name"], int(match["port"] or default)


def bridged(text: str, drivername: str) -> URL:
    """Return the URL of a Java driver for a JDBC URL: unchanged, except for the user and password."""
    login, rest = take_login(text)
    return URL.create(
        drivername,
        username=login.get("user", login.get("username")),
        password=login.get("password"),
        query={URL_PROPERTY: rest},
    )


def take_login(text: str) -> tuple[dict[str, str], str]:
    """Return the login properties of a JDBC URL, and the URL without them."""
    login = {}
    while match := _PROPERTY.search(text):
        value = unquote(match[3]) if match[1] in "?&" else match[3]
        login[match[2].lower()] = value
        # The separator between the database and the first property now precedes the next one.
        text = text[: match.start()] + (match[1] if match[4] else "") + text[match.end() :]
    if not login:
        return login, text
    # DB2's driver wants a semicolon after each property, also the last.
    return login, text.rstrip(":?&" if "=" in text else ":;?&")


def _unreadable() -> ConfigurationError:
    return ConfigurationError("the JDBC URL cannot be parsed; write jdbc:postgresql://host:port/database")


def without_secrets(url: URL) -> str:
    """Return the URL for display: its password is masked, and so is every other part that may hold one."""
    jdbc = url.query.get(URL_PROPERTY)
    if isinstance(jdbc, str) and is_jdbc(jdbc):
        return _LOGIN.sub(r"\1***@", _SECRET_PROPERTY.sub(r"\1***", jdbc))
    secret = {name: "hidden" for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(secret).render_as_string(hide_password=True)

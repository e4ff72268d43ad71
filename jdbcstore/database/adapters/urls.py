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
    found = _SUBPROTOCOL.match(text)
    if found is None:
        raise _unreadable()
    return found[1].lower()


def from_jdbc(text: str, drivername: str) -> URL:
    """Return the URL of a Python driver for a JDBC URL. User and password may be properties after the ``?``.

    :raises ConfigurationError: it is not of the form ``jdbc:vendor://host:port/database``
    """
    found = _JDBC.fullmatch(text)
    if found is None or (found["host"] and found["rest"]) or "//" in found["rest"]:
        raise _unreadable()
    # Other properties are for the Java driver, and unknown to a Python driver.
    properties = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
    host = (found["host"] or "").strip("[]")
    if found["hosts"]:
        last = found["host"] + (f":{found['port']}" if found["port"] else "")
        hosts = {"host": (*found["hosts"].rstrip(",").split(","), last)}
        return URL.create(
            drivername,
            username=properties.get("user"),
            password=properties.get("password"),
            database=found["db"] or None,
            query={**hosts, **_WRITABLE.get(drivername.partition("+")[0], {})},
        )
    return URL.create(
        drivername,
        username=properties.get("user"),
        password=properties.get("password"),
        host=host or None,
        port=int(found["port"]) if found["port"] else None,
        database=found["db"] or found["rest"] or None,
    )


def host_and_port(text: str, default: int) -> tuple[str, int]:
    """Return the parts of ``host:port``, or of a host alone.

    :raises ConfigurationError: it is neither
    """
    found = _HOST.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"{text!r} is not a host: write ?host=one:3306&host=other:3306", option="url"
        )
    return found["ip6"] or found["name"], int(found["port"] or default)


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
    while found := _PROPERTY.search(text):
        value = unquote(found[3]) if found[1] in "?&" else found[3]
        login[found[2].lower()] = value
        # The separator between the database and the first property now precedes the next one.
        text = text[: found.start()] + (found[1] if found[4] else "") + text[found.end() :]
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

"""The vendors, and how a URL finds its adapter."""

from __future__ import annotations

import importlib.util
import re
from urllib.parse import parse_qsl

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from jdbcstore.adapters.base import Adapter
from jdbcstore.adapters.mariadb import MariadbAdapter
from jdbcstore.adapters.mysql import MysqlAdapter
from jdbcstore.adapters.postgresql import PostgresqlAdapter
from jdbcstore.adapters.sqlite import SqliteAdapter
from jdbcstore.errors import ConfigurationError, MissingDriver, UnknownDatabase

ADAPTERS: tuple[type[Adapter], ...] = (SqliteAdapter, PostgresqlAdapter, MysqlAdapter, MariadbAdapter)


def adapter_for(text: str) -> tuple[Adapter, URL]:
    """The adapter of a SQLAlchemy or JDBC URL, and the URL with its driver filled in.

    :raises UnknownDatabase: no adapter serves the scheme
    :raises MissingDriver: the driver is not installed
    :raises ConfigurationError: the text is no URL
    """
    url = _from_jdbc(text) if text.lower().startswith("jdbc:") else _parse(text)
    backend, _, driver = url.drivername.partition("+")
    for kind in ADAPTERS:
        if kind.name == backend:
            break
    else:
        raise UnknownDatabase(url.drivername, tuple(kind.name for kind in ADAPTERS))
    drivername = url.drivername if driver else next(iter(kind.drivers))
    if drivername not in kind.drivers:
        raise ConfigurationError(
            f"the driver {driver!r} is not supported; use {' or '.join(kind.drivers)} in the URL"
        )
    module, extra = kind.drivers[drivername]
    if importlib.util.find_spec(module) is None:
        raise MissingDriver(module, extra)
    adapter = kind()
    return adapter, adapter.normalise(url.set(drivername=drivername))


def _parse(text: str) -> URL:
    try:
        return make_url(text)
    except (ArgumentError, ValueError):
        # The text may hold a password, and SQLAlchemy's own error quotes all of it.
        raise ConfigurationError(
            "the database URL cannot be parsed; write dialect://user:password@host:port/database,"
            " with @ : / in the password percent-encoded, or sqlite:///file.db"
        ) from None


_JDBC = re.compile(
    r"jdbc:(?P<sub>[a-z0-9]+):(?://(?P<host>\[[^\]]+\]|[^:/?]*)(?::(?P<port>\d+))?(?:/(?P<db>[^?]*))?)?"
    r"(?P<rest>[^?]*)(?:\?(?P<query>.*))?",
    re.IGNORECASE,
)


def _from_jdbc(text: str) -> URL:
    """A JDBC URL as SQLAlchemy's. User and password may be given as properties behind the ``?``."""
    found = _JDBC.fullmatch(text)
    if found is None or (found["host"] and found["rest"]) or "//" in found["rest"]:
        raise ConfigurationError("the JDBC URL cannot be parsed; write jdbc:postgresql://host:port/database")
    sub = found["sub"].lower()
    for kind in ADAPTERS:
        if sub in kind.jdbc_subprotocols:
            break
    else:
        raise UnknownDatabase(f"jdbc:{sub}", tuple(kind.name for kind in ADAPTERS))
    # Other properties are the Java driver's own and mean nothing to a Python driver.
    properties = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
    host = (found["host"] or "").strip("[]")
    return URL.create(
        next(iter(kind.drivers)),
        username=properties.get("user"),
        password=properties.get("password"),
        host=host or None,
        port=int(found["port"]) if found["port"] else None,
        database=found["db"] or found["rest"] or None,
    )

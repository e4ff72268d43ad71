"""The adapters by name, and the adapter of a URL: built-in ones and those of other packages."""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from sqlalchemy import URL

from jdbcstore.config.data_source import parse_url
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.generic import UNTRIED
from jdbcstore.database.adapters.urls import is_jdbc, subprotocol
from jdbcstore.errors import ConfigurationError, UnknownDatabase

GROUP = "jdbcstore.adapters"
"""The entry points in which other packages name their adapters."""

GENERIC = ("default", "blob", "bytes", "image")
"""The adapters for databases without one of their own."""

_HERE = "jdbcstore.database.adapters"
_CLASSES = {
    "sqlite": f"{_HERE}.sqlite:SqliteAdapter",
    "postgresql": f"{_HERE}.postgresql:PostgresqlAdapter",
    "mysql": f"{_HERE}.mysql:MysqlAdapter",
    "mariadb": f"{_HERE}.mysql:MariadbAdapter",
    "oracle": f"{_HERE}.oracle:OracleAdapter",
    "mssql": f"{_HERE}.mssql:MssqlAdapter",
    "derby": f"{_HERE}.java:DerbyAdapter",
    "hsqldb": f"{_HERE}.java:HsqldbAdapter",
    "h2": f"{_HERE}.java:H2Adapter",
    "default": f"{_HERE}.generic:DefaultAdapter",
    "blob": f"{_HERE}.generic:BlobAdapter",
    "bytes": f"{_HERE}.generic:BytesAdapter",
    "image": f"{_HERE}.generic:ImageAdapter",
}
BUILT_IN = (*[name for name in _CLASSES if name not in GENERIC], *UNTRIED, *GENERIC)

_ACTIVEMQ = {
    **{name: name for name in ("axion", "blob", "bytes", "db2", "default", "h2", "hsqldb", "informix")},
    **{name: name for name in ("maxdb", "mysql", "oracle", "postgresql", "sybase")},
    "imagebased": "image",
    "oracleblob": "oracle",
    "sqlserver": "mssql",
    "stream": "default",  # the same column, read and written as a stream
    "transact": "mssql",
}
"""By ActiveMQ's class or element name without ``jdbc`` and ``adapter``."""


def adapter_for(text: str, override: str | None = None) -> tuple[Adapter, URL]:
    """Return the adapter of a SQLAlchemy or JDBC URL, and the URL with its driver filled in.

    ``override`` names an adapter to use in place of the URL's; see :func:`adapter_class`.

    :raises UnknownDatabase: no adapter serves the scheme, or has that name
    :raises MissingDriver: the driver is not installed
    :raises ConfigurationError: the text is not a URL
    """
    chosen = None if override is None else _chosen(override)
    if is_jdbc(text):
        kind = chosen or adapter_of_subprotocol(subprotocol(text))
        url = kind.url_from_jdbc(text)
    else:
        url = parse_url(text)
        kind = chosen or adapter_of_scheme(url.get_backend_name())
        url = kind.with_driver(url)
    adapter = kind()
    adapter.check_driver(url)
    return adapter, adapter.normalise(url)


def _chosen(override: str) -> type[Adapter]:
    try:
        return adapter_class(override)
    except ConfigurationError as error:
        error.option = "adapter"
        raise


def adapter_names() -> tuple[str, ...]:
    """Return the names of all adapters, those of other packages last."""
    return (*BUILT_IN, *sorted(set(_plugged_in()) - set(BUILT_IN)))


def adapter_class(name: str) -> type[Adapter]:
    """Return the adapter of this name: jdbcstore's, ActiveMQ's, or ``package.module:Class``.

    :raises UnknownDatabase: there is none
    :raises ConfigurationError: it cannot be loaded, or is not an adapter
    """
    plain = adapter_of_activemq(name) or name
    if plain in adapter_names() or not re.search("[.:]", plain):
        return adapter_of_scheme(plain)
    return _load(name if ":" in name else ":".join(name.rsplit(".", 1)))


def adapter_of_activemq(name: str) -> str | None:
    """Return the adapter for one of ActiveMQ's, by its class or XML element; None for other names."""
    last = name.strip().rpartition(".")[2].lower()
    return _ACTIVEMQ.get(re.sub(r"-|jdbc|adapt[eo]r", "", last)) if "jdbc" in last else None


def adapter_of_scheme(scheme: str) -> type[Adapter]:
    """Return the adapter whose name is a URL's scheme.

    :raises UnknownDatabase: there is none
    """
    if scheme in UNTRIED:
        return UNTRIED[scheme]
    place = _CLASSES.get(scheme) or _plugged_in().get(scheme)
    if place is None:
        raise UnknownDatabase(scheme, adapter_names())
    return _load(place)


def is_database(url: str) -> bool:
    """Return whether the scheme of a URL is one of a database, and not of a file system."""
    scheme = url.partition(":")[0].partition("+")[0]
    return scheme == "jdbc" or scheme in UNTRIED or scheme in _CLASSES or scheme in _plugged_in()


def adapter_of_subprotocol(subprotocol: str) -> type[Adapter]:
    """Return the adapter that serves ``jdbc:<subprotocol>:``.

    :raises UnknownDatabase: there is none
    """
    for name in adapter_names():
        kind = adapter_class(name)
        if subprotocol in kind.jdbc_subprotocols:
            return kind
    raise UnknownDatabase(f"jdbc:{subprotocol}", adapter_names())


@cache
def _plugged_in() -> dict[str, str]:
    return {entry_point.name: entry_point.value for entry_point in entry_points(group=GROUP)}


@cache
def _load(place: str) -> type[Adapter]:
    module, _, attribute = place.partition(":")
    try:
        adapter: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"the adapter {place} cannot be loaded: {error}; name an installed package.module:Class"
        ) from error
    if not (isinstance(adapter, type) and issubclass(adapter, Adapter)):
        raise ConfigurationError(f"{place} is not an adapter; it must be a class derived from Adapter")
    return adapter

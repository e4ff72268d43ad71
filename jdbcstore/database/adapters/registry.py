"""The adapters by name: those here, and those that other packages bring."""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from jdbcstore.database.adapters.activemq import adapter_of_activemq
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.errors import ConfigurationError, UnknownDatabase

GROUP = "jdbcstore.adapters"
"""The entry points in which other packages name their adapters."""

GENERIC = ("default", "blob", "bytes", "image")
"""For a database that has no adapter of its own."""

BUILT_IN = {
    "sqlite": "jdbcstore.database.adapters.sqlite:SqliteAdapter",
    "postgresql": "jdbcstore.database.adapters.postgresql:PostgresqlAdapter",
    "mysql": "jdbcstore.database.adapters.mysql:MysqlAdapter",
    "mariadb": "jdbcstore.database.adapters.mariadb:MariadbAdapter",
    "oracle": "jdbcstore.database.adapters.oracle:OracleAdapter",
    "mssql": "jdbcstore.database.adapters.mssql:MssqlAdapter",
    "db2": "jdbcstore.database.adapters.db2:Db2Adapter",
    "derby": "jdbcstore.database.adapters.derby:DerbyAdapter",
    "hsqldb": "jdbcstore.database.adapters.hsqldb:HsqldbAdapter",
    "h2": "jdbcstore.database.adapters.h2:H2Adapter",
    "informix": "jdbcstore.database.adapters.informix:InformixAdapter",
    "sybase": "jdbcstore.database.adapters.sybase:SybaseAdapter",
    "maxdb": "jdbcstore.database.adapters.maxdb:MaxdbAdapter",
    "axion": "jdbcstore.database.adapters.axion:AxionAdapter",
    "default": "jdbcstore.database.adapters.generic:DefaultAdapter",
    "blob": "jdbcstore.database.adapters.generic:BlobAdapter",
    "bytes": "jdbcstore.database.adapters.generic:BytesAdapter",
    "image": "jdbcstore.database.adapters.generic:ImageAdapter",
}


def adapter_names() -> tuple[str, ...]:
    """Every adapter that can be had here, those of other packages last."""
    return (*BUILT_IN, *sorted(set(_plugged_in()) - set(BUILT_IN)))


def adapter_class(name: str) -> type[Adapter]:
    """The adapter of this name: ours, ActiveMQ's, or ``package.module:Class``.

    :raises UnknownDatabase: there is none
    :raises ConfigurationError: it cannot be loaded, or is no adapter
    """
    plain = adapter_of_activemq(name) or name
    if plain in adapter_names() or not re.search("[.:]", plain):
        return adapter_of_scheme(plain)
    return _load(name if ":" in name else ":".join(name.rsplit(".", 1)))


def adapter_of_scheme(scheme: str) -> type[Adapter]:
    """The adapter whose name is a URL's scheme.

    :raises UnknownDatabase: there is none
    """
    place = BUILT_IN.get(scheme) or _plugged_in().get(scheme)
    if place is None:
        raise UnknownDatabase(scheme, adapter_names())
    return _load(place)


def adapter_of_subprotocol(subprotocol: str) -> type[Adapter]:
    """The adapter that serves ``jdbc:<subprotocol>:``.

    :raises UnknownDatabase: there is none
    """
    for name in adapter_names():
        kind = adapter_class(name)
        if subprotocol in kind.jdbc_subprotocols:
            return kind
    raise UnknownDatabase(f"jdbc:{subprotocol}", adapter_names())


@cache
def _plugged_in() -> dict[str, str]:
    return {found.name: found.value for found in entry_points(group=GROUP)}


@cache
def _load(place: str) -> type[Adapter]:
    module, _, attribute = place.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"the adapter {place} cannot be loaded: {error}; name an installed package.module:Class"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise ConfigurationError(f"{place} is no adapter; it must be a class derived from Adapter")
    return found

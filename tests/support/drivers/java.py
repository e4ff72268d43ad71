"""JDBC drivers of databases that the tests cannot have, from Maven's central repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jdbcstore.database.adapters.jdbc import dbapi
from jdbcstore.database.adapters.jdbc.jvm import driver_for
from tests.support import ROOT

JARS = ROOT / ".build" / "drivers"
LOGIN = ("me", "p")


def open(url: str, *, login: bool = True) -> Any:  # noqa: A001
    """Connect; without a login, with that of the URL."""
    return dbapi.connect(url, *(LOGIN if login else (None, None)))


def refused(url: str) -> Exception:
    """Return the error with which the driver does not connect."""
    return _error(lambda: open(url))


def refused_by(data_source: Any) -> Exception:
    """Return the error with which a DataSource does not connect."""
    return _error(data_source.getConnection)


def data_source(url: str, class_name: str, properties: Mapping[str, Any]) -> Any:
    """Return a DataSource of the driver that takes this URL, with these properties.

    :raises AttributeError: the class does not have one of them
    """
    from jpype import JClass

    loader = driver_for(url).getClass().getClassLoader()
    made = JClass("java.lang.Class").forName(class_name, True, loader).getConstructor().newInstance()
    for name, value in properties.items():
        getattr(made, f"set{name[0].upper()}{name[1:]}")(value)
    return made


def _error(connect: Any) -> Exception:
    try:
        connect()
    except Exception as error:
        return error
    raise AssertionError("the driver has connected")

"""Options in environment variables: ``JDBCSTORE_POOL_SIZE``, ``JDBCSTORE_LOCKER_TYPE``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from jdbcstore.config.broker import BrokerConfig
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.fields import types_of, unknown
from jdbcstore.config.given import Given, Kind, Note, Section
from jdbcstore.config.io_handler import DefaultIOExceptionHandlerConfig, LeaseLockerIOExceptionHandlerConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import (
    CustomLockerConfig,
    DatabaseLockerConfig,
    LeaseDatabaseLockerConfig,
    SharedFileLockerConfig,
)
from jdbcstore.config.store import StoreConfig

PREFIX = "JDBCSTORE_"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
_OTHERS = (f"{PREFIX}TEST_", f"{PREFIX}REQUIRE", f"{PREFIX}JDBC_JARS", CONFIG_VARIABLE)
"""Not options: what the tests of jdbcstore are told, where Java's drivers are, and the name of the file."""

_SECTIONS = {
    "locker": (DatabaseLockerConfig, LeaseDatabaseLockerConfig, SharedFileLockerConfig, CustomLockerConfig),
    "journal": (JournalConfig,),
    "broker": (BrokerConfig,),
    "io_exception_handler": (DefaultIOExceptionHandlerConfig, LeaseLockerIOExceptionHandlerConfig),
}


def _scalars(kind: type) -> list[str]:
    simple = {str, int, float, bool, type(None)}
    return [one.name for one in fields(kind) if simple.issuperset(types_of(kind)[one.name])]


def _variables() -> dict[str, tuple[str, ...]]:
    """The path of the option that each variable gives."""
    paths = [(name,) for kind in (DataSourceConfig, StoreConfig) for name in _scalars(kind)]
    nested = [
        (section, name)
        for section, kinds in _SECTIONS.items()
        for kind in kinds
        for name in (*_scalars(kind), *(["type"] if hasattr(kind, "type") else []))
    ]
    return {PREFIX + "_".join(path).upper(): path for path in [*paths, ("broker_name",), *nested]}


def read_environment(environment: Mapping[str, str]) -> tuple[Section, list[Note]]:
    """What the variables give, and what is said of those with our prefix that no option has."""
    known = _variables()
    given: Section = {}
    notes = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable.startswith(_OTHERS) or not value:
            continue
        if variable not in known:
            near = unknown("environment variable", variable, known)
            notes.append(Note(Kind.UNKNOWN, "environment", near))
            continue
        *sections, name = known[variable]
        target = given
        for section in sections:
            target = target.setdefault(section, {})  # type: ignore[assignment]
        target[name] = Given(value, variable, text=True)
    return given, notes

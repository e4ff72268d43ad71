"""The locker of a configuration: one of ActiveMQ's three, or a user's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any

from jdbcstore.config.locker import CustomLockerConfig, LockerConfig
from jdbcstore.errors import ConfigurationError
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.util.clock import Clock

ENTRY_POINTS = "jdbcstore.lockers"
_BUILT_IN = {
    "database-locker": "jdbcstore.lockers.database:DatabaseLocker",
    "lease-database-locker": "jdbcstore.lockers.database:LeaseDatabaseLocker",
    "shared-file-locker": "jdbcstore.lockers.shared_file:SharedFileLocker",
}
_NOT_OF_THE_LOCKER = ("locker_class", "options")


def make_locker(config: LockerConfig, broker_name: str, clock: Clock | None = None) -> AbstractLocker:
    """The locker of a configuration, not started.

    :raises ConfigurationError: the class does not exist, or does not take these options
    """
    options = _options(config)
    where = _BUILT_IN.get(config.type, "")
    if isinstance(config, CustomLockerConfig):
        options |= config.options
        where = str(config.locker_class)
        found = entry_points(group=ENTRY_POINTS, name=where)
        factory = next(iter(found)).load() if found else _imported(where)
    else:
        factory = _imported(where)
    try:
        locker = factory(name=broker_name, clock=clock, **options)
    except TypeError as error:
        raise ConfigurationError(
            f"the locker {where} cannot be created: {error}", option="locker.type"
        ) from error
    if not isinstance(locker, AbstractLocker):
        raise ConfigurationError(
            f"{where} is not a locker: derive it from jdbcstore.lockers.AbstractLocker",
            option="locker.locker_class",
        )
    return locker


def _options(config: LockerConfig) -> dict[str, Any]:
    given = {one.name: getattr(config, one.name) for one in fields(config)}
    return {name: value for name, value in given.items() if name not in _NOT_OF_THE_LOCKER}


def _imported(where: str) -> Callable[..., Any]:
    """``package.module:Name`` or ``package.module.Name``."""
    module, _, name = where.partition(":") if ":" in where else where.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"there is no locker {where!r}: {error}; give the name of an entry point of {ENTRY_POINTS}, or"
            " package.module:Class",
            option="locker.locker_class",
        ) from error
    if not callable(found):
        raise ConfigurationError(f"{where} is not a class", option="locker.locker_class")
    return found  # type: ignore[no-any-return]

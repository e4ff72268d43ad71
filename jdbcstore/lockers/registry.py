"""The locker of a configuration: one of ActiveMQ's three, ZooKeeper's, a stream's, or a user's own."""

from __future__ import annotations

import pkgutil
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any

from jdbcstore.config import Configuration
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import CustomLockerConfig, LockerConfig, StreamLockerConfig
from jdbcstore.errors import ConfigurationError
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.util.clock import Clock

ENTRY_POINTS = "jdbcstore.lockers"
_BUILT_IN = {
    "database-locker": "jdbcstore.lockers.database:DatabaseLocker",
    "lease-database-locker": "jdbcstore.lockers.database:LeaseDatabaseLocker",
    "shared-file-locker": "jdbcstore.lockers.shared_file:SharedFileLocker",
    "zookeeper-locker": "jdbcstore.lockers.zookeeper:ZooKeeperLocker",
    "stream-locker": "jdbcstore.stores.replicated.locker:StreamLocker",
}


def make_locker(
    config: LockerConfig, broker_name: str, clock: Clock | None = None, journal: JournalConfig | None = None
) -> AbstractLocker:
    """Make the locker of a configuration, not started; ``journal`` is that of its store.

    :raises ConfigurationError: the class does not exist, or does not take these options
    """
    options = {field.name: getattr(config, field.name) for field in fields(config)}
    if isinstance(config, CustomLockerConfig):
        where = str(config.locker_class)
        del options["locker_class"], options["options"]
        options |= config.options
        entries = entry_points(group=ENTRY_POINTS, name=where)
        factory = next(iter(entries)).load() if entries else _imported(where)
    else:
        where = _BUILT_IN[config.type]
        if isinstance(config, StreamLockerConfig):
            options["journal"] = journal
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


def holder_outside(configuration: Configuration) -> str | None:
    """Return the holder of a lock that is not in the database; None if it is there, or the lock is free.

    :raises ConfigurationError: the locker cannot be made
    :raises StoreUnavailable: the servers of the lock do not answer
    """
    journal, config = configuration.journal, configuration.locker
    if config is None and journal is not None and journal.replicated:
        config = StreamLockerConfig()
    if config is None:
        return None
    return make_locker(config, configuration.broker_name, journal=journal).look()


def _imported(where: str) -> Any:
    """Import ``package.module:Name`` or ``package.module.Name``."""
    try:
        return pkgutil.resolve_name(where)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"there is no locker {where!r}: {error}; give the name of an entry point of {ENTRY_POINTS}, or"
            " package.module:Class",
            option="locker.locker_class",
        ) from error

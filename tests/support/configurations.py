"""What two configurations have in common."""

from __future__ import annotations

from jdbcstore.config import Configuration


def parts(configuration: Configuration) -> tuple[object, ...]:
    """All but the login, which is left out of a file."""
    one = configuration
    locker = None if one.locker is None else type(one.locker)
    return one.store, one.broker_name, locker, one.journal, one.policies

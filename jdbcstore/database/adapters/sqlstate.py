"""What the five characters of a SQLSTATE mean, where no vendor's own number says more."""

from __future__ import annotations

from jdbcstore.database.adapters.base import Failure

_STATES = {
    "23505": Failure.DUPLICATE,
    "22001": Failure.BAD_VALUE,
    **dict.fromkeys(("42P01", "42703", "42S02", "42S22", "42704"), Failure.NO_TABLE),
    "57011": Failure.FULL,
    "HYT00": Failure.TRANSIENT,  # a lock was waited for too long
}
_CLASSES = {
    "08": Failure.DISCONNECTED,
    "22": Failure.BAD_VALUE,
    "23": Failure.BAD_VALUE,
    "28": Failure.REFUSED,
    "40": Failure.TRANSIENT,
    "53": Failure.FULL,
    "54": Failure.TOO_LARGE,
}


def failure_of(state: str | None) -> Failure:
    """What a driver's SQLSTATE means to the store."""
    if not state:
        return Failure.OTHER
    return _STATES.get(state) or _CLASSES.get(state[:2], Failure.OTHER)

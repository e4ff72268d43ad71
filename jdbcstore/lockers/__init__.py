"""Lockers, which decide who is the master, and the fence, which refuses writes of a deposed one.

A locker alone cannot stop a master that was paused from writing on. So acquiring the lock begins an epoch,
and every transaction that writes checks that its epoch has not ended.
"""

from jdbcstore.lockers.base import AbstractLocker, LockState
from jdbcstore.lockers.inspection import (
    LockView,
    end_epoch_of_claims,
    last_epoch,
    look,
    refuse_locked,
    release,
)
from jdbcstore.lockers.mastership import Fence, Mastership
from jdbcstore.lockers.registry import make_locker

__all__ = [
    "AbstractLocker",
    "Fence",
    "LockState",
    "LockView",
    "Mastership",
    "end_epoch_of_claims",
    "last_epoch",
    "look",
    "make_locker",
    "refuse_locked",
    "release",
]

"""Who may write, and that nobody else does.

A locker decides who is the master. It cannot make sure: a master that was paused goes on writing. The
fence does: taking the lock begins an epoch, and every transaction that writes makes sure that its epoch
has not ended.
"""

from jdbcstore.lockers.base import AbstractLocker, LockState
from jdbcstore.lockers.fence import Fence
from jdbcstore.lockers.inspection import LockView, look, release
from jdbcstore.lockers.mastership import Mastership
from jdbcstore.lockers.registry import make_locker

__all__ = ["AbstractLocker", "Fence", "LockState", "LockView", "Mastership", "look", "make_locker", "release"]

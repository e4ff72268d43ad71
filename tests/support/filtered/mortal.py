"""Stores whose XA calls fail, or with which the process ends, at the Nth of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jdbcstore import MemoryStore
from jdbcstore.abc import Store, XAResource

NEVER = 1 << 60


class Died(BaseException):
    """The process has ended: from now on nothing is done any more."""


@dataclass
class Fate:
    """Counts the calls that change something, in whatever store."""

    at: int
    make: Callable[[], BaseException]
    done: bool
    """Whether the call that fails has done its work."""
    lasting: bool = True
    calls: int = 0

    def strike(self, step: int, make: Callable[[], BaseException], *, done: bool, lasting: bool) -> None:
        """Meet it so many calls from now."""
        self.at, self.make, self.done, self.lasting = self.calls + 1 + step, make, done, lasting

    def spare(self) -> None:
        """Fail no more."""
        self.at = NEVER

    def run(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls < self.at or (self.calls > self.at and not self.lasting):
            return call()
        if self.calls == self.at and self.done:
            call()
        raise self.make()


class Mortal:
    """A store that meets its fate in the phases of XA."""

    def __init__(self, store: Store, fate: Fate) -> None:
        self._store = store
        self._fate = fate

    @property
    def xa(self) -> _Resource:
        return _Resource(self._store.xa, self._fate)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class MortalMemory(MemoryStore):
    """The same of one in memory, which is still to be known as such."""

    fate: Fate

    @property
    def xa(self) -> Any:
        return _Resource(super().xa, self.fate)


class _Resource:
    def __init__(self, resource: XAResource, fate: Fate) -> None:
        self._resource = resource
        self._fate = fate

    def start(self, xid: Any) -> Any:
        branch: Any = self._resource.start(xid)
        prepare = branch.prepare
        branch.prepare = lambda: self._fate.run(prepare)
        return branch

    def recover(self) -> Any:
        return self._resource.recover()

    def commit(self, xid: Any) -> None:
        self._fate.run(lambda: self._resource.commit(xid))

    def rollback(self, xid: Any) -> None:
        self._fate.run(lambda: self._resource.rollback(xid))

"""Stores whose XA calls fail, or with which the process ends, at the Nth of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jdbcstore.abc import Store


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
        self.xa = _Resource(store, fate)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Resource:
    def __init__(self, store: Store, fate: Fate) -> None:
        self._store = store
        self._fate = fate

    def start(self, xid: Any) -> Any:
        branch: Any = self._store.xa.start(xid)
        prepare = branch.prepare
        branch.prepare = lambda: self._fate.run(prepare)
        return branch

    def recover(self) -> Any:
        return self._store.xa.recover()

    def commit(self, xid: Any) -> None:
        self._fate.run(lambda: self._store.xa.commit(xid))

    def rollback(self, xid: Any) -> None:
        self._fate.run(lambda: self._store.xa.rollback(xid))

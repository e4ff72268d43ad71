"""Two-phase commits over several stores, which reach one outcome even after a crash.

The coordinator is one of the stores that take part. It prepares first, is the first to commit, and the last
to roll back. So if a branch is prepared elsewhere but not with its coordinator, the coordinator has
committed; if it is still prepared with the coordinator, it was not decided, and is rolled back. Nothing else
has to be recorded: after a crash the prepared branches alone show the outcome.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jdbcstore.abc import Store, XATransaction
from jdbcstore.errors import LockLost, OutcomeUnknown, StoreError, TransactionNotFound
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.filtered.routes import Routes
from jdbcstore.stores.memory import MemoryStore

log = logging.getLogger(__name__)

FORMAT = 0x4A4D4B44
"""The format id of XIDs made here: JMKD. Their branch qualifier names the coordinator."""

Fill = Callable[[XATransaction], None]
"""Does one store's part of the work, in a branch."""


class Outcomes:
    """Commits transactions over several stores. Thread-safe."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._turn = threading.Condition()
        self._committing = 0
        self._finishing = False
        self._unfinished = False

    def commit(self, work: Sequence[tuple[Store, Fill]]) -> XATransactionId:
        """Do all the work, or none of it; returns the transaction id that its messages carry.

        :raises OutcomeUnknown: all of it will be done, or none, as soon as every store answers again
        :raises StoreError: none of it was done
        """
        if self._unfinished:
            self.finish()
        with self._turn:
            self._turn.wait_for(lambda: not self._finishing)
            self._committing += 1
        try:
            prepared, xid = self._prepare(work)
            if prepared:
                self._commit(prepared, xid)
            return xid
        finally:
            with self._turn:
                self._committing -= 1
                self._turn.notify_all()

    def _prepare(self, work: Sequence[tuple[Store, Fill]]) -> tuple[list[Store], XATransactionId]:
        """Prepare each branch; returns the stores with something to decide, the coordinator first."""
        global_id = secrets.token_bytes(16)
        prepared: list[Store] = []
        # A store in memory ends with the process, so it must not be the coordinator.
        for store, fill in sorted(work, key=lambda one: isinstance(one[0], MemoryStore)):
            if not prepared:
                xid = XATransactionId(FORMAT, global_id, self._routes.name_of(store))
            try:
                branch = store.xa.start(xid)
                fill(branch)
                if branch.prepare():
                    prepared.append(store)
            except BaseException:
                # It may have been prepared all the same.
                self._roll_back([*prepared, store], xid)
                raise
        return prepared, xid

    def _commit(self, prepared: list[Store], xid: XATransactionId) -> None:
        coordinator, *others = prepared
        try:
            coordinator.xa.commit(xid)
        except StoreError as error:
            if isinstance(error, OutcomeUnknown) or (isinstance(error, LockLost) and error.in_doubt):
                self._unfinished = True
            else:
                self._roll_back(prepared, xid)
            raise
        except BaseException:
            self._unfinished = True
            raise
        late = [failure for store in others if (failure := self._decide(store.xa.commit, xid)) is not None]
        if late:
            raise OutcomeUnknown(
                "the transaction is committed, but one of its stores does not answer: its part is committed"
                " there as soon as it does; do not repeat it"
            ) from late[0]

    def _roll_back(self, prepared: Sequence[Store], xid: XATransactionId) -> None:
        """Roll back every branch, the coordinator's last and only after all others."""
        coordinator, *others = prepared
        late = [error for store in others if (error := self._decide(store.xa.rollback, xid)) is not None]
        if not late:
            self._decide(coordinator.xa.rollback, xid)

    def _decide(self, decide: Callable[[XATransactionId], None], xid: XATransactionId) -> StoreError | None:
        """Decide one branch; returns the error if that is left to :meth:`finish`."""
        try:
            decide(xid)
        except TransactionNotFound:
            return None
        except StoreError as error:
            log.warning("a transaction over several stores is not finished yet: %s", error)
            self._unfinished = True
            return error
        return None

    def finish(self) -> None:
        """Commit or roll back each transaction that was interrupted.

        :raises StoreError: a store does not answer; call this again
        """
        with self.alone():
            pass

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Finish every interrupted transaction, and let none commit inside the block.

        :raises StoreError: a store does not answer
        """
        with self._turn:
            # Else a transaction that is being decided would look like an interrupted one.
            self._turn.wait_for(lambda: not self._finishing and not self._committing)
            self._finishing = True
        try:
            self._finish_all()
            yield
        finally:
            with self._turn:
                self._finishing = False
                self._turn.notify_all()

    def _finish_all(self) -> None:
        found: dict[XATransactionId, list[Store]] = {}
        for store in self._routes.stores:
            for transaction in store.xa.recover():
                if is_ours(transaction.xid):
                    found.setdefault(transaction.xid, []).append(store)
        self._unfinished = False
        for xid, stores in found.items():
            coordinator = self._routes.named(xid.branch_qualifier)
            if coordinator is None:
                log.error(
                    "%s was left undecided, and none of these stores was its coordinator; add the route that"
                    " led there", xid,
                )  # fmt: skip
            elif coordinator in stores:
                log.info("%s was left undecided, and is rolled back", xid)
                self._roll_back([coordinator, *(store for store in stores if store is not coordinator)], xid)
            else:
                log.info("%s was left unfinished, and is committed", xid)
                for store in stores:
                    self._decide(store.xa.commit, xid)


def is_ours(xid: XATransactionId) -> bool:
    """Whether it is of a transaction over several stores, not of a transaction manager."""
    return xid.format_id == FORMAT

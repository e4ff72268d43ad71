"""Transactions over several stores: two phases, and one outcome whatever ends in between.

The coordinator is one of the stores that take part. It prepares first, is the first to commit, and the last
to roll back. So a branch that is prepared elsewhere and not with its coordinator was decided: the
coordinator has committed. As long as the coordinator has it prepared it was not, and is rolled back. Nothing
else has to be written down, and whoever finds a branch after a crash need not know who began it.
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
"""The format of XIDs made here: JMKD. Their branch qualifier is the coordinator's name."""

Fill = Callable[[XATransaction], None]
"""Does the part of the work that is one store's, in a branch."""


class Outcomes:
    """Commits over several stores. For any number of threads."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._turn = threading.Condition()
        self._committing = 0
        """How many threads are."""
        self._finishing = False
        self._unfinished = False

    def commit(self, work: Sequence[tuple[Store, Fill]]) -> XATransactionId:
        """Do all the work, or none of it; the id that the messages have.

        :raises OutcomeUnknown: all or none of it is done, at the latest when every store answers again
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
        """Those that have something to decide, the coordinator first."""
        global_id = secrets.token_bytes(16)
        prepared: list[Store] = []
        # A store in memory ends with the process, so it decides nothing that others must know.
        for store, fill in sorted(work, key=lambda one: isinstance(one[0], MemoryStore)):
            if not prepared:
                xid = XATransactionId(FORMAT, global_id, self._routes.name_of(store))
            try:
                branch = store.xa.start(xid)
                fill(branch)
                if branch.prepare():
                    prepared.append(store)
            except BaseException:
                # It may be prepared all the same.
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
                "the transaction is to be committed, and one of its stores does not answer: its part is"
                " done there as soon as it does; do not do it again"
            ) from late[0]

    def _roll_back(self, prepared: Sequence[Store], xid: XATransactionId) -> None:
        """The coordinator last, and not before all others have rolled back."""
        coordinator, *others = prepared
        late = [error for store in others if (error := self._decide(store.xa.rollback, xid)) is not None]
        if not late:
            self._decide(coordinator.xa.rollback, xid)

    def _decide(self, decide: Callable[[XATransactionId], None], xid: XATransactionId) -> StoreError | None:
        """Why it could not be done, and is left to :meth:`finish`."""
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
        """Give each transaction that was left undecided the outcome that it has.

        :raises StoreError: a store does not answer; it is to be called again
        """
        with self.alone():
            pass

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A while in which nothing is committed, after all that was left undecided is finished.

        :raises StoreError: a store does not answer
        """
        with self._turn:
            # Else it would take one that is being decided for one that was left.
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
                    "%s was left undecided, and the store that knows its outcome is none of these; add the"
                    " route that led there", xid,
                )  # fmt: skip
            elif coordinator in stores:
                log.info("%s was left undecided, and is rolled back", xid)
                self._roll_back([coordinator, *(store for store in stores if store is not coordinator)], xid)
            else:
                log.info("%s was left unfinished, and is committed", xid)
                for store in stores:
                    self._decide(store.xa.commit, xid)


def is_ours(xid: XATransactionId) -> bool:
    """Whether it is of a transaction over several stores, and no transaction manager's."""
    return xid.format_id == FORMAT

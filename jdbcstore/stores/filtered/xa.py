"""XA transactions over several stores: one branch in each, of the same XID."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from jdbcstore.abc import PreparedTransaction, PreparedWrites, Store, XATransaction
from jdbcstore.errors import StoreError, TransactionNotFound
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.filtered.outcomes import is_ours
from jdbcstore.stores.filtered.transaction import FilteredTransaction
from jdbcstore.stores.shared.checks import not_prepared, prepared_before, xid_order

if TYPE_CHECKING:
    from jdbcstore.stores.filtered.store import FilteredStore

log = logging.getLogger(__name__)


class FilteredXAResource:
    """See :class:`jdbcstore.abc.XAResource`.

    The second phase goes through the stores one after the other. One that was interrupted goes on
    when it is asked for again.
    """

    def __init__(self, store: FilteredStore) -> None:
        self._store = store

    def start(self, xid: XATransactionId) -> FilteredXATransaction:
        for store in self._store.routes.stores:
            store.xa.start(xid)  # does nothing but look at the id
        return FilteredXATransaction(self._store, xid)

    def recover(self) -> list[PreparedTransaction]:
        found: dict[XATransactionId, list[PreparedWrites]] = {}
        for store in self._store.routes.stores:
            for one in store.xa.recover():
                if is_ours(one.xid):
                    continue
                found.setdefault(one.xid, []).extend(one.writes)
        return [
            PreparedTransaction(xid, tuple(sorted(found[xid], key=_place)))
            for xid in sorted(found, key=xid_order)
        ]

    def commit(self, xid: XATransactionId) -> None:
        self._decide(xid, lambda store: store.xa.commit(xid))

    def rollback(self, xid: XATransactionId) -> None:
        self._decide(xid, lambda store: store.xa.rollback(xid))

    def _decide(self, xid: XATransactionId, decide: Callable[[Store], None]) -> None:
        done = 0
        for store in self._store.routes.stores:
            try:
                decide(store)
            except TransactionNotFound:
                continue
            done += 1
        if not done:
            raise not_prepared(xid)


class FilteredXATransaction(FilteredTransaction):
    """See :class:`jdbcstore.abc.XATransaction`. For one thread at a time."""

    def __init__(self, store: FilteredStore, xid: XATransactionId) -> None:
        super().__init__(store)
        self._xid = xid

    @property
    def xid(self) -> XATransactionId:
        return self._xid

    def _begin(self, store: Store) -> XATransaction:
        return store.xa.start(self._xid)

    def prepare(self) -> bool:
        prepared: list[Store] = []
        parts = self._end()
        # Each would see for itself, but perhaps behind one that has prepared.
        if any(one.xid == self._xid for one in self._store.xa.recover()):
            raise prepared_before(self._xid)
        for part in parts:
            try:
                if cast(XATransaction, part.local).prepare():
                    prepared.append(part.store)
            except BaseException:
                self._give_up(prepared)
                raise
        return bool(prepared)

    def _give_up(self, prepared: list[Store]) -> None:
        """What cannot be rolled back now is in doubt, and the transaction manager's to roll back."""
        for store in prepared:
            try:
                store.xa.rollback(self._xid)
            except StoreError as error:
                log.warning("%s stays in doubt in one store: %s", self._xid, error)


def _place(writes: PreparedWrites) -> tuple[bool, str, str, str]:
    """What a transaction's writes are sorted by, in every store."""
    client_id, name = writes.client_id or "", writes.subscription_name or ""
    return bool(client_id), str(writes.destination), client_id, name

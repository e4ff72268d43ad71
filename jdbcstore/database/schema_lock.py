"""Schema lock: the right to change tables, where the nodes of a cluster share no locks.

Changes of one table at two nodes at the same time end transactions in some clusters, and break a node in
others. So only the process that owns the lock's row changes tables.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator

from sqlalchemy import BigInteger, Column, Engine, Executable, MetaData, String, Table, and_, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.errors import StoreUnavailable

log = logging.getLogger(__name__)

NAME = "JDBCSTORE_SCHEMA_LOCK"
LEASE = 60.0
"""Seconds after which another process takes over a lock that is not renewed."""
_RENEWAL = 5.0
_PAUSE = 0.1
_TRIES = 10
_OTHERS = (Failure.TRANSIENT, Failure.DUPLICATE, Failure.UNKNOWN)
"""The answers to an insert while another process holds the lock, or takes it."""


@contextlib.contextmanager
def schema_lock(engine: Engine, adapter: Adapter) -> Iterator[None]:
    """Hold the right to change tables; where the nodes share their locks, do nothing."""
    if not adapter.certifies:
        yield
        return
    lock = _SchemaLock(engine, adapter)
    lock.take()
    ended = threading.Event()
    renewing = threading.Thread(target=lock.renew, args=(ended,), name="jdbcstore-schema", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        lock.release()


class _SchemaLock:
    """A row with its owner, and the number of its renewals.

    Its age is measured by the processes that wait for a change of the row, not by the clocks of machines.
    """

    def __init__(self, engine: Engine, adapter: Adapter) -> None:
        self._engine = engine
        self._adapter = adapter
        self._owner = f"{socket.gethostname()[:100]} {os.getpid()} {secrets.token_hex(8)}"
        self._table = Table(
            NAME,
            MetaData(),
            Column("ID", BigInteger, key="id", primary_key=True, autoincrement=False),
            Column("OWNER", String(250), key="owner", nullable=False),
            Column("RENEWALS", BigInteger, key="renewals", nullable=False),
            **adapter.table_options,
        )
        self._row = {"id": 1, "owner": self._owner, "renewals": 0}
        self._is_mine = self._table.c.owner == self._owner

    def take(self) -> None:
        """Wait until the lock is free, or its owner has not renewed it for long; hold it then.

        :raises StoreUnavailable: another node has it, but this one does not show its row
        """
        seen, since = None, time.monotonic()
        while not self._try(self._table.insert().values(self._row)):
            found = self._find()
            if found is not None and found[0] == self._owner:
                return
            if found != seen:
                seen, since = found, time.monotonic()
            elif time.monotonic() - since >= LEASE and self._take_over(found):
                return
            time.sleep(_PAUSE)

    def renew(self, ended: threading.Event) -> None:
        """Renew the lock until it is ``ended``."""
        renewal = self._table.update().where(self._is_mine).values(renewals=self._table.c.renewals + 1)
        while not ended.wait(_RENEWAL):
            try:
                self._change(renewal)
            except DBAPIError as error:
                log.warning("the lock of the tables was not renewed: %s", error.orig)

    def release(self) -> None:
        """Release the lock; if that fails, others wait until it has not been renewed for long."""
        for left in reversed(range(_TRIES)):
            try:
                self._change(self._table.delete().where(self._is_mine))
            except DBAPIError as error:
                if not left or self._classify(error) is not Failure.TRANSIENT:
                    log.warning("the lock of the tables was not released: %s", error.orig)
                    return
            else:
                return

    def _try(self, statement: Executable) -> bool:
        """Return whether a statement has changed the row; create the table if there is none."""
        try:
            return bool(self._change(statement))
        except DBAPIError as error:
            failure = self._classify(error)
            if failure is Failure.NO_TABLE:
                self._try(CreateTable(self._table, if_not_exists=True))
            elif failure not in _OTHERS:
                raise
        return False

    def _find(self) -> tuple[str, int] | None:
        with self._engine.connect() as connection:
            found = connection.execute(select(self._table.c.owner, self._table.c.renewals)).first()
            return None if found is None else (found.owner, found.renewals)

    def _take_over(self, found: tuple[str, int] | None) -> bool:
        if found is None:
            raise StoreUnavailable("the lock of the tables can neither be taken nor found: try again")
        owner, renewals = found
        is_same = and_(self._table.c.owner == owner, self._table.c.renewals == renewals)
        done = self._try(self._table.update().where(is_same).values(self._row))
        if done:
            log.warning("the process that changed the tables has ended, or hangs: %s", owner)
        return done

    def _change(self, statement: Executable) -> int:
        with self._engine.begin() as connection:
            return connection.execute(statement).rowcount

    def _classify(self, error: DBAPIError) -> Failure:
        return Failure.OTHER if error.orig is None else self._adapter.classify(error.orig)

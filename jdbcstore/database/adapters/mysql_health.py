"""InnoDB's state in MySQL and MariaDB: the history that purge has left, what holds it, and lock waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from jdbcstore.database.adapters.base import error_number
from jdbcstore.database.adapters.durability import of_mysql
from jdbcstore.database.adapters.health import Health, literal
from jdbcstore.util.checkup import BAD, WARNING, Diagnosis, Durability, in_seconds

_TRANSACTIONS = """
SELECT t.trx_id, t.trx_mysql_thread_id, p.USER, p.HOST, p.COMMAND,
 TIMESTAMPDIFF(SECOND, t.trx_started, NOW()), t.trx_rows_modified, t.trx_rows_locked,
 t.trx_tables_locked, t.trx_isolation_level, t.trx_state
FROM information_schema.INNODB_TRX t
 LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
WHERE t.trx_mysql_thread_id <> CONNECTION_ID() ORDER BY t.trx_started
"""
_HISTORY = "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
_SIZE = """
SELECT COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ({names})
"""
_SETTINGS = """
SHOW SESSION VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog',
 'wsrep_on', 'wsrep_sync_wait', 'group_replication_group_name', 'group_replication_single_primary_mode',
 'group_replication_consistency', 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled')
"""
_STATUS = """
SHOW GLOBAL STATUS WHERE Variable_name IN
 ('wsrep_cluster_size', 'Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')
"""
_REFUSED = (1142, 1227)
"""The server's errors for a table or a view that this user may not read."""
_SNAPSHOTS = ("REPEATABLE READ", "SERIALIZABLE")
_LOCKED = """
SELECT DISTINCT CAST(ENGINE_TRANSACTION_ID AS CHAR) FROM performance_schema.data_locks
WHERE OBJECT_SCHEMA = DATABASE() AND OBJECT_NAME = {lock} AND LOCK_STATUS = 'GRANTED'
"""
_UNLESS = ", unless it is the lock of a master with the database-locker"
_GAPS = ("GAP", "INSERT_INTENTION", "supremum")
"""Words in the modes and the row of a lock of the place before a row, or after the last."""
_PROGRAMS = """
SELECT PROCESSLIST_ID, MAX(CASE ATTR_NAME WHEN 'program_name' THEN ATTR_VALUE END),
 MAX(CASE ATTR_NAME WHEN '_client_name' THEN ATTR_VALUE END),
 MAX(CASE ATTR_NAME WHEN '_pid' THEN ATTR_VALUE END)
FROM performance_schema.session_connect_attrs WHERE PROCESSLIST_ID IN ({numbers}) GROUP BY PROCESSLIST_ID
"""


class _Open(NamedTuple):
    """An open transaction."""

    id: str
    thread: int
    what: str
    is_idle: bool
    seconds: int
    holds: bool
    """Whether it keeps a snapshot, locks or changes."""
    waits: bool
    """Whether it waits for a lock."""
    may_be_master: bool
    """Whether it can be that of a database-locker, which locks one table, and changes one row."""

    @property
    def cure(self) -> str:
        if self.thread:
            return f"KILL {self.thread}"
        return "XA RECOVER; then XA COMMIT or XA ROLLBACK it"

    @property
    def careful_cure(self) -> str:
        return self.cure + (_UNLESS if self.may_be_master else "")


class MysqlHealth(Health):
    """Of MySQL.

    InnoDB renews its lists of transactions and locks once they were not read for a tenth of a second: more
    frequent queries get old ones.
    """

    waits: ClassVar[str] = """
SELECT CAST(r.ENGINE_TRANSACTION_ID AS CHAR), CAST(b.ENGINE_TRANSACTION_ID AS CHAR),
 TIMESTAMPDIFF(SECOND, t.trx_wait_started, NOW()), r.LOCK_MODE, b.LOCK_MODE, r.OBJECT_NAME, r.INDEX_NAME,
 r.LOCK_DATA
FROM performance_schema.data_lock_waits w
 JOIN performance_schema.data_locks r ON r.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID
 JOIN performance_schema.data_locks b ON b.ENGINE_LOCK_ID = w.BLOCKING_ENGINE_LOCK_ID
 JOIN information_schema.INNODB_TRX t ON t.trx_id = r.ENGINE_TRANSACTION_ID
"""

    def diagnose(self) -> Iterator[Diagnosis]:
        if self._tables:
            [(size,)] = self._rows(_SIZE.format(names=self._names))
            self.figures["table_bytes"] = int(size)
        rows, histories = self._if_allowed(_TRANSACTIONS), self._if_allowed(_HISTORY)
        if rows is None or histories is None:
            yield self._hidden("information_schema.INNODB_TRX", "GRANT PROCESS ON *.* TO {}")
            return
        [(history,)] = histories
        programs = self._programs([row[1] for row in rows if row[1]])
        open_ = [_open(*row, program=programs.get(row[1], "")) for row in rows]
        masters = self._masters()
        holders = [transaction for transaction in open_ if transaction.holds]
        if masters is not None:
            holders = [holder._replace(may_be_master=False) for holder in holders if holder.id not in masters]
        self.figures |= {
            "history_length": int(history),
            "oldest_transaction_seconds": max((holder.seconds for holder in holders), default=0),
        }
        is_long = int(history) >= self._limits.history
        for holder in holders:
            if holder.seconds >= self._limits.patience and not holder.waits:
                yield _held(holder, is_bad=is_long)
        if is_long:
            yield _lagging(int(history), holders)
        yield from self._of_waits({transaction.id: transaction for transaction in open_})

    def durability(self) -> Durability:
        settings, status = (
            {str(name): str(value) for name, value in self._rows(query)} for query in (_SETTINGS, _STATUS)
        )
        return of_mysql(settings, status)

    def _programs(self, numbers: list[int]) -> dict[int, str]:
        """Return the clients' own names, by connection, where the server keeps them."""
        if not numbers:
            return {}
        rows = self._if_allowed(_PROGRAMS.format(numbers=", ".join(map(str, numbers))))
        return {
            number: f"{name or client or 'a program'}, process {pid}, "
            for number, name, client, pid in rows or ()
        }

    def _masters(self) -> set[str] | None:
        """Return the transactions that have locked the lock's row, or wait for it; None if hidden."""
        rows = self._if_allowed(_LOCKED.format(lock=literal(self._lock)))
        return None if rows is None else {id_ for (id_,) in rows}

    def _if_allowed(self, query: str) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query; None if this user must not run it."""
        try:
            return self._rows(query)
        except Exception as error:
            if error_number(error) not in _REFUSED:
                raise
            return None

    def _is_lock(self, table: str) -> bool:
        return table.replace("`", "").rpartition(".")[2].lower() == self._lock.lower()

    def _hidden(self, view: str, grant: str) -> Diagnosis:
        [(user,)] = self._rows("SELECT CURRENT_USER()")
        name, _, host = str(user).rpartition("@")
        return Diagnosis(
            name="not allowed to look",
            severity=WARNING,
            text=f"{view} is hidden, so neither long transactions nor lock waits are seen",
            cause=f"the rights of {user}",
            cure=grant.format(f"'{name}'@'{host}'"),
        )

    def _of_waits(self, open_: dict[str, _Open]) -> Iterator[Diagnosis]:
        rows = self._if_allowed(self.waits)
        if rows is None:
            yield self._hidden("performance_schema.data_locks", "GRANT SELECT ON performance_schema.* TO {}")
            return
        # Slaves wait for the master's lock for as long as it has it.
        rows = [row for row in rows if not self._is_lock(row[5])]
        self.figures["lock_waits"] = len({row[0] for row in rows})
        waiting = {str(row[0]) for row in rows}
        by_blocker: dict[str, list[tuple[Any, ...]]] = {}
        for row in rows:
            if str(row[1]) not in waiting:
                by_blocker.setdefault(str(row[1]), []).append(row)
        for blocker, those in by_blocker.items():
            waiter, _, waited, wanted, held, table, index, place = max(those, key=lambda row: row[2] or 0)
            if (waited or 0) < self._limits.patience:
                continue
            holder = open_.get(blocker)
            gap = any(word in f"{wanted} {held} {place}" for word in _GAPS)
            who = open_[str(waiter)].what if str(waiter) in open_ else "one"
            cure = "run the checkup again: the transaction has ended" if holder is None else holder.cure
            if gap:
                cure += "; a transaction in READ COMMITTED takes no locks of gaps"
            yield Diagnosis(
                name="gap lock waits" if gap else "lock waits",
                severity=BAD,
                text=f"{len({row[0] for row in those})} waiting for locks, {who} for"
                f" {in_seconds(waited or 0)}: {wanted} of {table.replace('`', '')}, index {index}",
                cause=None if holder is None else holder.what,
                cure=cure,
                figures={"waiting": len({row[0] for row in those}), "seconds": waited or 0},
            )


class MariadbHealth(MysqlHealth):
    """Of MariaDB, which shows locks in other views, and only contended ones."""

    waits = """
SELECT CAST(w.requesting_trx_id AS CHAR), CAST(w.blocking_trx_id AS CHAR),
 TIMESTAMPDIFF(SECOND, t.trx_wait_started, NOW()), r.lock_mode, b.lock_mode, r.lock_table, r.lock_index,
 r.lock_data
FROM information_schema.INNODB_LOCK_WAITS w
 JOIN information_schema.INNODB_LOCKS r ON r.lock_id = w.requested_lock_id
 JOIN information_schema.INNODB_LOCKS b ON b.lock_id = w.blocking_lock_id
 JOIN information_schema.INNODB_TRX t ON t.trx_id = w.requesting_trx_id
"""

    def _masters(self) -> set[str] | None:
        return None


def _open(
    id_: Any,
    thread: int,
    user: str | None,
    host: str | None,
    command: str | None,
    seconds: int,
    modified: int,
    locked: int,
    tables: int,
    isolation: str,
    state: str,
    *,
    program: str,
) -> _Open:
    if not thread:
        what = "a prepared transaction without a connection"
    elif user is None:
        what = f"connection {thread}"
    else:
        what = f"connection {thread} ({program}user {user} from {host})"
    is_idle = command == "Sleep"
    like_master = tables == 1 and modified <= 1
    one_row = is_idle and like_master and locked <= 1
    keeps = (bool(modified or locked) and not one_row) or not is_idle or isolation in _SNAPSHOTS
    return _Open(str(id_), thread, what, is_idle, int(seconds or 0), keeps, state == "LOCK WAIT", like_master)


def _held(holder: _Open, *, is_bad: bool) -> Diagnosis:
    if not holder.thread:
        name = "prepared transaction"
    else:
        name = "idle in transaction" if holder.is_idle else "long transaction"
    return Diagnosis(
        name=name,
        severity=BAD if is_bad else WARNING,
        text=f"A transaction of {in_seconds(holder.seconds)} keeps locks, or versions from being purged",
        cause=holder.what,
        cure=holder.careful_cure,
        figures={"seconds": holder.seconds},
    )


def _lagging(history: int, holders: list[_Open]) -> Diagnosis:
    if holders:
        oldest = holders[0]
        cause = f"the transaction of {oldest.what}, {in_seconds(oldest.seconds)} old"
        cure = oldest.careful_cure
    else:
        cause = "purge does not keep up with the writes"
        cure = "SET GLOBAL innodb_purge_batch_size = 5000, and more innodb_purge_threads at the next start"
    return Diagnosis(
        name="purge lag",
        severity=BAD,
        text=f"Old versions of {history:,} transactions are not purged: reads go past all of them",
        cause=cause,
        cure=cure,
        figures={"history_length": history},
    )

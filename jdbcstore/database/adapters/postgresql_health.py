"""PostgreSQL's state: dead rows, what holds back vacuum, its age, unused space, and lock waits.

Each statement reads the server's statistics and catalogs, and none of them a table of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jdbcstore.database.adapters.durability import of_postgresql
from jdbcstore.database.adapters.health import Health, literal
from jdbcstore.util.checkup import BAD, WARNING, Diagnosis, Durability, in_seconds

_SESSIONS = """
SELECT pid, application_name, usename::text, client_addr::text, state,
 datname IS NULL, COALESCE(wait_event_type, '') = 'Lock',
 EXTRACT(EPOCH FROM clock_timestamp() - xact_start)::float8,
 GREATEST(age(backend_xmin), age(backend_xid)), pid IN ({of_lock})
FROM pg_stat_activity
WHERE (datname = current_database() OR datname IS NULL) AND pid <> pg_backend_pid()
 AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
 AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
"""
"""Of other users, only the numbers are seen. A session without a database sends to a standby."""
_OF_LOCK = """
SELECT pid FROM pg_locks WHERE granted AND mode = 'RowShareLock' AND relation = to_regclass({lock})
"""
"""The sessions with SELECT FOR UPDATE of the lock's row: the master, and waiting ones."""
_SLOTS = "SELECT slot_name::text, active_pid, age(xmin) FROM pg_replication_slots WHERE xmin IS NOT NULL"
_PREPARED = """
SELECT gid, owner::text, EXTRACT(EPOCH FROM clock_timestamp() - prepared)::float8, age(transaction)
FROM pg_prepared_xacts WHERE database = current_database()
"""
_TABLES = """
SELECT c.relname::text, s.n_dead_tup, s.n_live_tup,
 EXTRACT(EPOCH FROM clock_timestamp() - GREATEST(s.last_vacuum, s.last_autovacuum))::float8,
 'autovacuum_enabled=false' = ANY (COALESCE(c.reloptions, '{{}}')), age(c.relfrozenxid),
 pg_total_relation_size(c.oid), pg_relation_size(c.oid),
 COALESCE((SELECT sum(avg_width) FROM pg_stats w
  WHERE w.schemaname = s.schemaname AND w.tablename = c.relname), 8000)::float8,
 COALESCE(pg_relation_size(t.relid), 0), COALESCE(t.n_live_tup, 0)
FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid
 LEFT JOIN pg_stat_all_tables t ON t.relid = c.reltoastrelid
WHERE c.relname IN ({names}) AND c.relkind = 'r' AND pg_table_is_visible(c.oid) ORDER BY 2 DESC
"""
_SETTINGS = "SELECT current_setting('autovacuum'), current_setting('autovacuum_freeze_max_age')::bigint"
_OF_DURABILITY = """
SELECT name, setting FROM pg_settings
WHERE name IN ('synchronous_commit', 'synchronous_standby_names', 'fsync', 'full_page_writes')
"""
_WAITS = """
SELECT w.pid, w.application_name, w.usename::text, w.client_addr::text,
 EXTRACT(EPOCH FROM clock_timestamp() - w.query_start)::float8,
 b.pid, a.application_name, a.usename::text, a.client_addr::text, a.state, a.wait_event_type,
 EXTRACT(EPOCH FROM clock_timestamp() - a.xact_start)::float8,
 (SELECT l.mode || COALESCE(' of ' || l.relation::regclass::text, '') FROM pg_locks l
  WHERE l.pid = w.pid AND NOT l.granted LIMIT 1)
FROM pg_stat_activity w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b(pid)
 LEFT JOIN pg_stat_activity a ON a.pid = b.pid
WHERE w.datname = current_database() AND w.wait_event_type = 'Lock'
 AND NOT (w.pid IN ({of_lock}) AND b.pid IN ({of_lock}))
"""
"""Slaves, which wait for the master's lock for as long as it has it, are not meant."""
_LEASE = (
    "configure the lease-database-locker in each broker of this store; a session that is ended takes the lock"
    " from its master"
)
_ROW_BYTES = 28
"""Bytes of a row besides its columns."""
_CHUNK_BYTES = 2048
"""The most that one row of a TOAST table takes."""
_MANY_XIDS = 1_000_000
"""Transactions that something without a time of its own may hold back."""
_LATE = 1.5
"""The multiple of autovacuum_freeze_max_age at which a table is vacuumed first."""


class _Holder(NamedTuple):
    """Something that keeps dead rows from being removed."""

    name: str
    what: str
    xids: int
    seconds: float | None
    """The age; None if the server does not say it."""
    cure: str
    waits: bool = False
    """Whether it waits for a lock, which is named by itself."""


class PostgresqlHealth(Health):
    """Of PostgreSQL 12 and later."""

    def diagnose(self) -> Iterator[Diagnosis]:
        holders = sorted(self._holders(), key=lambda holder: -holder.xids)
        [(autovacuum, freeze_max)] = self._rows(_SETTINGS)
        tables = self._rows(_TABLES.format(names=self._names)) if self._tables else []
        self.figures |= {
            "dead_rows": sum(row[1] for row in tables),
            "horizon_transactions": max((holder.xids for holder in holders), default=0),
            "oldest_transaction_seconds": max((holder.seconds or 0 for holder in holders), default=0),
            "table_bytes": sum(int(row[6]) for row in tables),
        }
        dying = [row for row in tables if row[1] >= self._limits.dead_rows + 0.4 * row[2]]
        for number, holder in enumerate(holders):
            if self._is_long(holder, harms=bool(dying) and number == 0):
                yield self._held(holder, is_bad=bool(dying))
        if autovacuum != "on":
            yield Diagnosis(
                name="autovacuum off",
                severity=BAD,
                text="The server vacuums no table by itself: deleted messages stay in the tables and indexes",
                cause="the setting autovacuum",
                cure="ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()",
            )
        for row in tables:
            yield from self._of_table(row, freeze_max)
        for row in dying:
            yield self._dying(row, holders, autovacuum)
        yield from self._waits()

    def durability(self) -> Durability:
        # Of standbys, every user sees the number.
        rows = self._rows(_OF_DURABILITY)
        [(standbys, is_standby)] = self._rows(
            "SELECT (SELECT count(*) FROM pg_stat_replication), pg_is_in_recovery()"
        )
        return of_postgresql(dict(rows), standbys, is_standby=is_standby)

    def _holders(self) -> Iterator[_Holder]:
        sessions = self._rows(_SESSIONS.format(of_lock=self._of_lock))
        for pid, name, user, address, state, sends, waits, seconds, xids, locks in sessions:
            what = _session(pid, name, user, address)
            if state is None:
                what += "; this user sees more of it after GRANT pg_read_all_stats"
            end = f"SELECT pg_terminate_backend({pid})"
            if sends:
                advice = f"set hot_standby_feedback = off on the standby, or end its query; {end}"
                yield _Holder("standby feedback", f"the standby at {what}", xids, None, advice)
            elif locks and not waits:
                yield _Holder("master's lock", f"{what}, which has locked {self._lock}", xids, None, _LEASE)
            elif state is not None and state.startswith("idle in transaction"):
                yield _Holder("idle in transaction", what, xids, seconds, end)
            else:
                yield _Holder("long transaction", what, xids, seconds, end, waits)
        for name, pid, xids in self._rows(_SLOTS):
            if pid is None:
                what = f"the unused slot {name}"
                cure = f"SELECT pg_drop_replication_slot({literal(name)})"
            else:
                what = f"the slot {name}, which session {pid} reads"
                cure = "set hot_standby_feedback = off on the standby, or end its query"
            yield _Holder("replication slot", what, xids, None, cure)
        for gid, owner, seconds, xids in self._rows(_PREPARED):
            cure = f"COMMIT PREPARED {literal(gid)}, or ROLLBACK PREPARED {literal(gid)}"
            yield _Holder("prepared transaction", f"{gid} of {owner}", xids, seconds, cure)

    @property
    def _of_lock(self) -> str:
        return _OF_LOCK.format(lock=literal(self._lock))

    def _is_long(self, holder: _Holder, *, harms: bool) -> bool:
        if holder.seconds is not None:
            return holder.seconds >= self._limits.patience and not holder.waits
        return harms or holder.xids >= _MANY_XIDS

    def _held(self, holder: _Holder, *, is_bad: bool) -> Diagnosis:
        since = "" if holder.seconds is None else f" for {in_seconds(holder.seconds)}"
        return Diagnosis(
            name=holder.name,
            severity=BAD if is_bad else WARNING,
            text=f"Deleted rows cannot be vacuumed{since}, over {holder.xids:,} transactions",
            cause=holder.what,
            cure=holder.cure,
            figures={"transactions": holder.xids, "seconds": holder.seconds or 0},
        )

    def _dying(self, row: tuple[Any, ...], holders: list[_Holder], autovacuum: str) -> Diagnosis:
        table, dead, live, vacuumed, is_off, *_ = row
        since = "never" if vacuumed is None else f"{in_seconds(vacuumed)} ago"
        cure = f'VACUUM "{table}"'
        if is_off or autovacuum != "on":
            cause = "autovacuum is off"
        elif holders and self._is_long(holders[0], harms=True):
            cause = f"{holders[0].name}: {holders[0].what}"
            cure = f"{holders[0].cure}; then {cure}"
        else:
            cause = "autovacuum has not come so far"
            cure = f'{cure}; ALTER TABLE "{table}" SET (autovacuum_vacuum_scale_factor = 0.02)'
        return Diagnosis(
            name="dead rows",
            severity=BAD if dead > 10 * live else WARNING,
            text=f"{table} has {dead:,} dead rows beside {live:,}, and was last vacuumed {since}",
            cause=cause,
            cure=cure,
            figures={"dead_rows": dead, "live_rows": live, "seconds": vacuumed or 0},
        )

    def _of_table(self, row: tuple[Any, ...], freeze_max: int) -> Iterator[Diagnosis]:
        table, _, live, _, is_off, frozen, _, size, width, toast, chunks = row
        if is_off:
            yield Diagnosis(
                name="autovacuum off",
                severity=BAD,
                text=f"The server does not vacuum {table} by itself",
                cause=f"the parameter autovacuum_enabled of {table}",
                cure=f'ALTER TABLE "{table}" RESET (autovacuum_enabled)',
            )
        if frozen > _LATE * freeze_max:
            yield Diagnosis(
                name="transaction ids run out",
                severity=BAD,
                text=f"{table} was frozen {frozen:,} transactions ago; at 2,000 million all writes fail",
                cause="vacuum does not get to the end of the table",
                cure=f'VACUUM (FREEZE) "{table}"',
                figures={"transactions": frozen},
            )
        unused = max(0.0, size - live * (width + _ROW_BYTES)) + max(0, toast - chunks * _CHUNK_BYTES)
        if unused >= self._limits.unused_bytes and unused > 0.75 * (size + toast):
            yield Diagnosis(
                name="bloat",
                severity=WARNING,
                text=f"{table} takes {(size + toast) >> 20:,} MiB for {live:,} rows",
                cause="rows that were deleted faster than they were vacuumed, at some time",
                cure=f'VACUUM (FULL) "{table}", while the table is unused, because it is locked',
                figures={"unused_bytes": unused, "live_rows": live},
            )

    def _waits(self) -> Iterator[Diagnosis]:
        rows = self._rows(_WAITS.format(of_lock=self._of_lock))
        self.figures["lock_waits"] = len({row[0] for row in rows})
        by_blocker: dict[int, list[tuple[Any, ...]]] = {}
        for row in rows:
            if row[10] != "Lock":  # the blocker does not wait itself
                by_blocker.setdefault(row[5], []).append(row)
        for pid, those in by_blocker.items():
            first = max(those, key=lambda row: row[4] or 0)
            waited = first[4] or 0
            if waited < self._limits.patience:
                continue
            if pid:
                cause = f"{_session(pid, *first[6:9])}, {first[9] or 'in an unknown state'}"
                if first[11] is not None:
                    cause += f", in a transaction of {in_seconds(first[11])}"
                cure = f"SELECT pg_terminate_backend({pid})"
            else:
                cause = "a prepared transaction"
                cure = "SELECT gid FROM pg_prepared_xacts; then COMMIT PREPARED or ROLLBACK PREPARED it"
            waiter = _session(*first[:4])
            yield Diagnosis(
                name="lock waits",
                severity=BAD,
                text=f"{len(those)} waiting for locks, {waiter} for {in_seconds(waited)}: {first[12]}",
                cause=cause,
                cure=cure,
                figures={"waiting": len(those), "seconds": waited},
            )


def _session(pid: int, name: str | None, user: str | None, address: str | None) -> str:
    shown = f'"{name}", ' if name else ""
    place = f" from {address}" if address else ""
    return f"session {pid} ({shown}user {user}{place})"

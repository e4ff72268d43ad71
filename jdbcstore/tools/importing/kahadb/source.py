"""A tree of KahaDB folders as a source: one store, those of mKahaDB, and the job scheduler's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from jdbcstore.message.ids import XATransactionId
from jdbcstore.tools.importing.folders import FolderSource
from jdbcstore.tools.importing.kahadb.index import JOBS, MESSAGES, has_old_jobs
from jdbcstore.tools.importing.kahadb.replaying import Decisions, LogFolder
from jdbcstore.tools.importing.logged import Ended, Outcome, Reading

LOCAL_FORMAT = 61616
"""The format id that mKahaDB gives to transactions of its own over several stores."""
_TRANSACTIONS = "txStore"
_SPILLED = "tmpDB.data"
"""The index of messages that are not persistent."""


class KahaDbSource(FolderSource):
    """The KahaDB folders of a tree; archives of full logs in it are left out."""

    WHAT = "data logs of KahaDB, db-1.log and so on"
    APART = re.compile("data-archive|legacySchedulerStore")
    STORE = LogFolder

    def find(self) -> list[Path]:
        return [path for path in self.walk(self.folder) if self._is_store(path)]

    def _is_store(self, path: Path) -> bool:
        """Return whether a folder is read; report the content of others."""
        if (path / _SPILLED).exists():
            self.findings.note(f"{path} has messages that are not persistent; left out")
        elif has_old_jobs(path):
            self.findings.damage(
                path / JOBS, 0, 0,
                "scheduled messages of ActiveMQ before 5.11 are not read: start a later one once, which"
                " converts them",
            )  # fmt: skip
        elif self.STORE.is_in(path):
            return True
        elif any((path / name).exists() for name in (MESSAGES, JOBS)):
            self.findings.damage(path / "db-1.log", 0, 0, "there is an index, and no data log")
        return False

    def replay_all(self, paths: Iterable[Path], reading: Reading) -> None:
        """Replay the stores, and end the transactions over several of them as mKahaDB has decided."""
        before = len(self.findings.damages)
        decisions = [Decisions(path, reading) for path in paths if path.name == _TRANSACTIONS]
        for decision in decisions:
            decision.run()
        is_known = bool(decisions) and len(self.findings.damages) == before
        super().replay_all((path for path in paths if path.name != _TRANSACTIONS), reading)
        for store in self.stores:
            for xid in [xid for xid in store.prepared if _is_local(xid)]:
                if is_known:
                    is_committed = any(xid in decision.committed for decision in decisions)
                    store.apply(Ended(xid, Outcome.COMMITTED if is_committed else Outcome.ROLLED_BACK))
                    continue
                self.findings.note(
                    f"{xid} is a transaction over several stores of mKahaDB, and {_TRANSACTIONS} does not"
                    " tell its outcome: it is left in doubt"
                )


def _is_local(transaction: object) -> bool:
    return isinstance(transaction, XATransactionId) and transaction.format_id == LOCAL_FORMAT

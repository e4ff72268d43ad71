"""The writer of a store with ``enable_audit``: what was stored before is not stored again."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from jdbcstore.audit import DuplicateAudit
from jdbcstore.futures import Promise, StoreFuture
from jdbcstore.lockers import Fence
from jdbcstore.session import Session
from jdbcstore.units import Unit
from jdbcstore.writer import Writer


class _Cancelling:
    """Takes back what another future is for."""

    def withdraw(self, written: Future[Any]) -> bool:
        return written.cancel()


_WRITTEN = _Cancelling()


def recovered_audit(session: Session) -> DuplicateAudit:
    """An audit that has seen what was stored last."""
    config = session.config
    audit = DuplicateAudit(config.max_producers_to_audit, config.max_audit_depth)
    recent = session.fetch(session.statements.find_all_message_ids, limit=config.audit_recovery_depth)
    for producer, sequence in reversed(recent):
        if producer is not None and sequence is not None:
            audit.is_duplicate(producer, sequence)
    return audit


class AuditedWriter(Writer):
    """Leaves duplicates out of each unit; their references have the sequence -1."""

    def __init__(self, session: Session, audit: DuplicateAudit, fence: Fence | None = None) -> None:
        super().__init__(session, fence)
        self.audit: DuplicateAudit = audit

    def execute(self, unit: Unit) -> Any:
        self.leave_out_duplicates(unit)
        try:
            return super().execute(unit)
        except BaseException:
            self.forget(unit.names)
            raise

    def submit(self, unit: Unit) -> StoreFuture[Any]:
        self.leave_out_duplicates(unit)
        try:
            written = super().submit(unit)
        except BaseException:
            self.forget(unit.names)
            raise
        result: Promise = Promise(_WRITTEN, written)

        def complete(done: Future[Any]) -> None:
            # Forgotten first: whoever hears of the failure may send the message again at once.
            if done.cancelled():
                self.forget(unit.names)
                return
            error = done.exception()
            if error is None:
                result.set_result(done.result())
            else:
                self.forget(unit.names)
                result.set_exception(error)

        written.add_done_callback(complete)
        return result

    def leave_out_duplicates(self, unit: Unit) -> None:
        unit.adds, unit.result = self.audit.without_duplicates(unit.adds, unit.result)

    def forget(self, names: Iterable[tuple[str, int]]) -> None:
        for name in names:
            self.audit.forget(*name)

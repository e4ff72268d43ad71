"""Rows that only say where in a journal their message is, and how their readers get it all the same."""

from __future__ import annotations

from functools import partial

from jdbcstore.database.session import Session
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.openwire import REFERENCE_SIZE, is_reference, read_reference
from jdbcstore.stores.shared.checkpoint import FindBody, Referring
from jdbcstore.stores.shared.paging import Complete, RowChanged


def find_referring(session: Session, after: int, up_to: int, limit: int) -> list[Referring]:
    """The next messages behind a sequence and up to another of which the tables have a reference only."""
    find = session.statements.find_messages_of_size
    while True:
        rows = session.fetch(find, after=after, up_to=up_to, size=REFERENCE_SIZE, limit=limit)
        found = [Referring(id_, name, bytes(blob)) for id_, name, blob in rows if is_reference(blob)]
        if found or len(rows) < limit:
            return found
        after = rows[-1][0]


class Bodies:
    """Where the messages are that the rows of a store refer to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.find: FindBody | None = None
        """None: no row refers to anything."""

    def complete(self, container: str) -> Complete | None:
        """Makes rows of a destination whole; None if they are."""
        return None if self.find is None else partial(self._completed, self.find, container)

    def _completed(self, find: FindBody, container: str, id_: int, blob: bytes) -> bytes:
        try:
            return find(bytes(blob), id_, container)
        except CorruptMessage:
            read_reference(blob, id_, container)  # or it is the row that is damaged
            # Its file may have been let go of since the row was read.
            if find_referring(self._session, id_ - 1, id_, 1):
                raise
            raise RowChanged from None

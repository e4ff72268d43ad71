"""The statements of JDBCSTORE_LARGE and JDBCSTORE_PIECES: bodies that are kept in pieces."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, bindparam, delete, exists, func, literal_column, or_, select, update
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.statements.builder import ONE, ZERO, StatementBuilder

_NONE: ColumnElement[int] = literal_column("-1")


class LargeStatements(StatementBuilder):
    """Bodies, their pieces, and the messages that have them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        large, pieces, t = self._tables.large, self._tables.pieces, self._tables.messages
        owner = large.alias("owner")
        number = bindparam("number", type_=BigInteger())
        head = (large.c.id == number, large.c.msg_id == ZERO)
        self.add = self._insert(large)
        self.add_piece = self._insert(pieces)
        place = (pieces.c.id == number, pieces.c.piece == bindparam("piece_", type_=BigInteger()))
        self.remove_piece = self._compile(lambda: delete(pieces).where(*place))
        self.find_piece = self._compile(lambda: select(pieces.c.data).where(*place))
        self.touch = self._compile(
            lambda: update(large).where(*head, large.c.touched >= ZERO).values(touched=large.c.touched + ONE)
        )
        """Locks the row of a body that is not being removed."""
        self.find_touched = self._compile(lambda: select(large.c.touched).where(*head))
        self.renumber = self._compile(
            lambda: (
                update(large)
                .where(large.c.msg_id == bindparam("old_id", type_=BigInteger()))
                .values(msg_id=bindparam("new_id", type_=BigInteger()))
            )
        )
        unchanged = large.c.touched == bindparam("touched_", type_=BigInteger())
        self.abandon = self._compile(lambda: update(large).where(*head, unchanged).values(touched=_NONE))
        self.remove_pieces = self._compile(
            lambda: delete(pieces).where(
                pieces.c.id == number,
                pieces.c.piece.between(
                    bindparam("first", type_=BigInteger()), bindparam("last", type_=BigInteger())
                ),
            )
        )
        self.find_last_piece = self._compile(
            lambda: select(func.max(pieces.c.piece)).where(pieces.c.id == number)
        )
        self.remove = self._compile(lambda: delete(large).where(large.c.id == number))

        def kept() -> ColumnElement[bool]:
            used = select(ONE).select_from(owner.join(t, t.c.id == owner.c.msg_id))
            return exists(used.where(owner.c.id == large.c.id, owner.c.msg_id != ZERO).correlate(large))

        self.find_unused = self._page_of(
            lambda: (
                select(large.c.id, large.c.touched, large.c.begun)
                .where(large.c.msg_id == ZERO, large.c.id > bindparam("after"))
                .where(or_(large.c.touched < ZERO, ~kept()))
                .order_by(large.c.id)
            )
        )
        """The bodies that no stored message has, by number."""
        self.find_any = self._page_of(lambda: select(large.c.id).where(large.c.msg_id == ZERO))

"""Vendors without a BEGIN statement: the driver's autocommit switch frames a transaction."""

from __future__ import annotations

from typing import Any

from jdbcstore.database.adapters.base import Adapter


class SwitchedAdapter(Adapter):
    """For drivers whose connections have ``autocommit``, True between transactions."""

    def begin(self, cursor: Any) -> None:
        cursor.connection.autocommit = False

    def commit(self, cursor: Any) -> None:
        cursor.connection.commit()
        cursor.connection.autocommit = True

    def rollback(self, cursor: Any) -> None:
        if not cursor.connection.autocommit:
            cursor.connection.rollback()
            cursor.connection.autocommit = True

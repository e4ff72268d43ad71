"""PostgreSQL used without what some engines of its protocol, and some poolers, do not have."""

from __future__ import annotations

from typing import Any, ClassVar

from jdbcstore.database.adapters.postgresql import PostgresqlAdapter
from jdbcstore.database.adapters.writing import Writing


class LockFreeAdapter(PostgresqlAdapter):
    """No SELECT locks a row, no connection notifies another, and there are no advisory locks."""

    touches_to_lock: ClassVar = True
    notifies: ClassVar = False
    lock_migrations: ClassVar = ""
    writing: Any = Writing()

"""ActiveMQ's three tables, before priorities."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.steps import MakeTable, PutRow, Step, indexes_of
from jdbcstore.database.schema import LOCK_ROW
from jdbcstore.database.tables import Tables

revision = "activemq_5_0"
down_revision = None


def steps(tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    return [
        MakeTable(tables.messages, tables.messages.c.priority, tables.messages.c.xid),
        *indexes_of(tables.messages, "MIDX", "CIDX", "EIDX"),
        MakeTable(tables.acks, tables.acks.c.priority, tables.acks.c.xid),
        MakeTable(tables.lock),
        PutRow(tables.lock, "id", LOCK_ROW),
    ]


def drops(_tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    """Return no steps: ActiveMQ's own tables stay."""
    return []


def upgrade() -> None:
    op.get_context().opts["migration"].run_steps(steps)


def downgrade() -> None:
    op.get_context().opts["migration"].run_steps(drops)

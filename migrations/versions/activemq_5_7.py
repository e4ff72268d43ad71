"""XA transactions in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.steps import AddColumn, MakeString, Step, indexes_of
from jdbcstore.database.tables import Tables

revision = "activemq_5_7"
down_revision = "activemq_5_4"


def steps(tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    return [
        AddColumn(tables.messages.c.xid),
        MakeString(tables.messages.c.xid),
        *indexes_of(tables.messages, "XIDX"),
        AddColumn(tables.acks.c.xid),
        MakeString(tables.acks.c.xid),
        *indexes_of(tables.acks, "XIDX"),
    ]


def drops(_tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    """Return no steps: ActiveMQ's own tables stay, and an older one runs on newer tables."""
    return []


def upgrade() -> None:
    op.get_context().opts["migration"].run_steps(steps)


def downgrade() -> None:
    op.get_context().opts["migration"].run_steps(drops)

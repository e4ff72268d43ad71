"""Priorities of messages, and ten marks for a subscription."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.steps import (
    AddColumn,
    NumberMessages,
    NumberSubscriptions,
    Step,
    WidenKey,
    indexes_of,
)
from jdbcstore.database.tables import Tables

revision = "activemq_5_4"
down_revision = "activemq_5_0"


def steps(tables: Tables, adapter: Adapter) -> Sequence[Step]:
    return [
        AddColumn(tables.messages.c.priority),
        NumberMessages(tables.messages),
        *indexes_of(tables.messages, "PIDX"),
        AddColumn(tables.acks.c.priority),
        NumberSubscriptions(tables.acks),
        WidenKey(tables.acks, adapter),
    ]


def drops(_tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    """Return no steps: ActiveMQ's own tables stay, and an older one runs on newer tables."""
    return []


def upgrade() -> None:
    op.get_context().opts["migration"].run_steps(steps)


def downgrade() -> None:
    op.get_context().opts["migration"].run_steps(drops)

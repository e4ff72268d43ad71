"""Every message has a container, and MSG holds more than 64 KiB."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.steps import EnlargeBinary, ForbidNull, Step
from jdbcstore.database.tables import Tables

revision = "activemq_5_15"
down_revision = "activemq_5_7"


def steps(tables: Tables, adapter: Adapter) -> Sequence[Step]:
    return [
        ForbidNull(tables.messages.c.container, adapter),
        EnlargeBinary(tables.messages.c.msg, adapter),
    ]


def drops(_tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    """Return no steps: ActiveMQ's own tables stay, and an older one runs on newer tables."""
    return []


def upgrade() -> None:
    op.get_context().opts["migration"].run_steps(steps)


def downgrade() -> None:
    op.get_context().opts["migration"].run_steps(drops)

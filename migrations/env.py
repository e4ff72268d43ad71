"""Alembic's environment. ``jdbcstore migrate`` runs it, and says on which database."""

from __future__ import annotations

from alembic import context

from jdbcstore.database.migrations import Migration

migration: Migration = context.config.attributes["migration"]
migration.configure(context)
with context.begin_transaction():
    migration.begin(context)
    context.run_migrations()
    migration.end(context)

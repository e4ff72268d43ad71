"""Migrations of the schema from the tables of a database to a revision.

The revisions are an Alembic environment in the folder ``migrations``. Each is a list of steps that check the
database before they act, because every step may have been done before: by an ActiveMQ, by an administrator,
or by a run that was killed.
"""

from jdbcstore.database.migrations.check import Report, check
from jdbcstore.database.migrations.migration import Migration, Planned, Revision, migration_of, revisions
from jdbcstore.database.migrations.steps import Advance, Effect

__all__ = [
    "Advance",
    "Effect",
    "Migration",
    "Planned",
    "Report",
    "Revision",
    "check",
    "migration_of",
    "revisions",
]

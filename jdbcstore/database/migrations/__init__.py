"""What a database has, what it lacks, and the migrations between the two.

The revisions are an Alembic environment, ``migrations/`` in the sources and ``jdbcstore/migrations``
in an installed package. Each is a list of steps that look at the database before they act, so that
every step may have been done before: by an ActiveMQ, by a person, or by a run that was killed.
"""

from jdbcstore.database.migrations.check import Report, check
from jdbcstore.database.migrations.history import Revision, revisions
from jdbcstore.database.migrations.migration import Migration, Planned
from jdbcstore.database.migrations.opening import migration_of
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

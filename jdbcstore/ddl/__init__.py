"""What a database has, what it lacks, and the migrations between the two.

The revisions are an Alembic environment, ``migrations/`` in the sources and ``jdbcstore/migrations``
in an installed package. Each is a list of steps that look at the database before they act, so that
every step may have been done before: by an ActiveMQ, by a person, or by a run that was killed.
"""

from jdbcstore.ddl.check import Report, check
from jdbcstore.ddl.history import Revision, revisions
from jdbcstore.ddl.migration import Migration, Planned
from jdbcstore.ddl.opening import migration_of
from jdbcstore.ddl.steps import Advance, Effect

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

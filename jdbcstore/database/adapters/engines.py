"""The engines that speak the protocol of PostgreSQL or of MySQL: the names they give themselves, their facts.

An adapter asks the server for the variables of the table at its first connection. The facts of an engine that
the tests do not run are those of its manual.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """One engine."""

    name: str
    signs: Mapping[str, str] = field(default_factory=dict)
    """Variables of the server, and a pattern that is found in the value of each."""
    shares_locks: bool = True
    """Whether all nodes that take writes share their locks, of rows and by name. If not, COMMIT is refused to
    one of two transactions that have written the same row."""
    is_tested: bool = False
    refusal: str = ""
    """Why the engine cannot keep the store's promises; empty if it can."""


_NO_SYSTEM_COLUMNS = "it does not have the columns xmin and ctid, which tell whether a row has changed"
_OPTIMISTIC = "it does not wait for locked rows, but ends transactions at COMMIT"

POSTGRESQL = (
    EngineFacts(name="CockroachDB", signs={"version": "CockroachDB"}, refusal=_NO_SYSTEM_COLUMNS),
    EngineFacts(name="YugabyteDB", signs={"version": "-YB-"}, refusal=_NO_SYSTEM_COLUMNS),
    EngineFacts(name="Redshift", signs={"version": "Redshift"}, refusal="it does not enforce primary keys"),
    EngineFacts(name="Aurora DSQL", signs={"version": r"^PostgreSQL \d+$"}, refusal=_OPTIMISTIC),
    EngineFacts(name="Greenplum", signs={"version": "Greenplum"}),
    EngineFacts(name="EDB Postgres Advanced Server", signs={"version": "EnterpriseDB"}),
    EngineFacts(name="Aurora PostgreSQL", signs={"aurora": "."}),
    EngineFacts(name="Amazon RDS for PostgreSQL", signs={"rds.extensions": "."}),
    EngineFacts(name="AlloyDB", signs={"alloydb.enabled": "."}),
    EngineFacts(name="Cloud SQL for PostgreSQL", signs={"cloudsql.iam_authentication": "."}),
    EngineFacts(name="Azure Database for PostgreSQL", signs={"azure.extensions": "."}),
    EngineFacts(name="Citus", signs={"citus.shard_count": "."}),
    EngineFacts(name="PostgreSQL", signs={"version": r"^PostgreSQL [\w.]+( \([^)]*\))? on "}, is_tested=True),
)
"""Of the dialect of PostgreSQL."""

MYSQL = (
    EngineFacts(
        name="TiDB",
        signs={"version": "TiDB"},
        refusal="it accepts SKIP LOCKED and LOCK IN SHARE MODE but locks no row, so two masters or workers"
        " would not notice each other",
    ),
    EngineFacts(name="Vitess", signs={"version": "Vitess"}),
    EngineFacts(
        name="OceanBase",
        signs={"version": "OceanBase"},
        refusal="SQLAlchemy cannot read the indexes of its tables, and it evaluates both branches of IF, so"
        " a guarded statement fails although its guard holds",
    ),
    EngineFacts(name="Dolt", signs={"version_comment": "Dolt"}, refusal=_OPTIMISTIC),
    EngineFacts(name="Aurora MySQL", signs={"aurora_version": "."}),
    EngineFacts(
        name="Galera Cluster",
        signs={"wsrep_on": "^ON$"},
        shares_locks=False,
        is_tested=True,
    ),
    EngineFacts(
        name="MySQL Group Replication with several primaries",
        signs={"group_replication_group_name": ".", "group_replication_single_primary_mode": "^OFF$"},
        shares_locks=False,
        is_tested=True,
    ),
    EngineFacts(name="MySQL Group Replication", signs={"group_replication_group_name": "."}, is_tested=True),
    EngineFacts(name="MariaDB", signs={"version": "MariaDB"}, is_tested=True),
    EngineFacts(name="Azure Database for MySQL", signs={"version": "-azure"}),
    EngineFacts(name="Cloud SQL for MySQL", signs={"version": "-google"}),
    EngineFacts(name="Percona Server", signs={"version_comment": "Percona"}),
    EngineFacts(
        name="MySQL",
        signs={"version": r"^[\d.]+(-(\d[\w.+~]*|log|debug|commercial|enterprise|cluster))*$"},
        is_tested=True,
    ),
)
"""Of the dialects of MySQL and MariaDB."""


def recognise(engines: tuple[EngineFacts, ...], variables: Mapping[str, str | None]) -> EngineFacts | None:
    """Return the first engine of which the variables have all signs; None if there is none."""
    for engine in engines:
        if all(re.search(pattern, variables.get(name) or "") for name, pattern in engine.signs.items()):
            return engine
    return None

"""The names that servers give themselves lead to the rows of the table of engines."""

from __future__ import annotations

import pytest

from jdbcstore.database.adapters.engines import MYSQL, POSTGRESQL, recognise

_ON = "on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit"
_GROUP = {"group_replication_group_name": "8a94f357-aab4-11df-86ab-c80aa9429562"}

POSTGRESQL_SAYS = [
    ({"version": f"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) {_ON}"}, "PostgreSQL"),
    ({"version": f"PostgreSQL 12.22 {_ON}"}, "PostgreSQL"),
    ({"version": f"PostgreSQL 18beta2 {_ON}"}, "PostgreSQL"),
    (
        {"version": "CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15, go1.22.2)"},
        "CockroachDB",
    ),
    ({"version": f"PostgreSQL 11.2-YB-2.20.1.3-b0 {_ON}"}, "YugabyteDB"),
    ({"version": "PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.77467"}, "Redshift"),
    ({"version": "PostgreSQL 16"}, "Aurora DSQL"),
    ({"version": f"PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f) {_ON}"}, "Greenplum"),
    (
        {"version": f"PostgreSQL 16.2 (EnterpriseDB Advanced Server 16.2.0) {_ON}"},
        "EDB Postgres Advanced Server",
    ),
    (
        {"version": "PostgreSQL 15.4 on x86_64-pc-linux-gnu, compiled by x86_64", "aurora": "aurora_version"},
        "Aurora PostgreSQL",
    ),
    ({"version": f"PostgreSQL 16.3 {_ON}", "rds.extensions": "citext"}, "Amazon RDS for PostgreSQL"),
    ({"version": f"PostgreSQL 15.5 {_ON}", "alloydb.enabled": "on"}, "AlloyDB"),
    (
        {"version": f"PostgreSQL 15.5 {_ON}", "cloudsql.iam_authentication": "off"},
        "Cloud SQL for PostgreSQL",
    ),
    ({"version": f"PostgreSQL 16.2 {_ON}", "azure.extensions": "hll"}, "Azure Database for PostgreSQL"),
    ({"version": f"PostgreSQL 16.2 {_ON}", "citus.shard_count": "32"}, "Citus"),
    ({"version": f"PostgreSQL 14.1-Strange-3 {_ON}"}, None),
    ({"version": "Materialize v0.100"}, None),
]
MYSQL_SAYS = [
    ({"version": "9.7.0", "version_comment": "MySQL Community Server - GPL"}, "MySQL"),
    ({"version": "9.7.4-2", "version_comment": "(Debian)"}, "MySQL"),
    ({"version": "8.0.36-0ubuntu0.22.04.1", "version_comment": "(Ubuntu)"}, "MySQL"),
    ({"version": "8.4.3-commercial"}, "MySQL"),
    ({"version": "10.11.19-MariaDB-0+deb12u1", "wsrep_on": "OFF"}, "MariaDB"),
    ({"version": "10.11.19-MariaDB-0+deb12u1", "wsrep_on": "ON"}, "Galera Cluster"),
    (
        {"version": "8.0.35-27.1", "version_comment": "Percona XtraDB Cluster", "wsrep_on": "ON"},
        "Galera Cluster",
    ),
    (
        {"version": "9.7.0", **_GROUP, "group_replication_single_primary_mode": "ON"},
        "MySQL Group Replication",
    ),
    (
        {"version": "9.7.0", **_GROUP, "group_replication_single_primary_mode": "OFF"},
        "MySQL Group Replication with several primaries",
    ),
    (
        {
            "version": "9.7.0",
            "group_replication_group_name": "",
            "group_replication_single_primary_mode": "OFF",
        },
        "MySQL",
    ),
    ({"version": "8.0.11-TiDB-v8.5.0"}, "TiDB"),
    ({"version": "8.0.30-Vitess"}, "Vitess"),
    ({"version": "5.7.25-OceanBase-v4.3.5.0"}, "OceanBase"),
    ({"version": "5.7.25-OceanBase seekdb-v1.4.0.0"}, "OceanBase"),
    ({"version": "8.0.33", "version_comment": "Dolt"}, "Dolt"),
    ({"version": "8.0.32", "aurora_version": "3.06.0"}, "Aurora MySQL"),
    ({"version": "8.0.36-azure"}, "Azure Database for MySQL"),
    ({"version": "8.0.31-google"}, "Cloud SQL for MySQL"),
    ({"version": "8.0.36-28", "version_comment": "Percona Server (GPL), Release 28"}, "Percona Server"),
    ({"version": "8.0.12-StrangeDB"}, None),
]


@pytest.mark.parametrize(
    ("table", "examples"), [(POSTGRESQL, POSTGRESQL_SAYS), (MYSQL, MYSQL_SAYS)], ids=["postgresql", "mysql"]
)
def test_engines_are_recognised(table: tuple, examples: list) -> None:  # type: ignore[type-arg]
    named = [(said, found and found.name) for said, _ in examples for found in [recognise(table, said)]]
    assert named == examples
    assert {engine.name for engine in table} <= {name for _, name in examples}


def test_only_engines_that_keep_promises_are_tested() -> None:
    assert [one.name for one in (*POSTGRESQL, *MYSQL) if one.is_tested and one.refusal] == []

"""The sentence on acknowledged messages, and the risks, by the settings of a server."""

from __future__ import annotations

import pytest

from jdbcstore.database.adapters.durability import of_mysql, of_postgresql, of_sqlite

_SAFE = {"synchronous_commit": "on", "synchronous_standby_names": "", "fsync": "on", "full_page_writes": "on"}
_ONE = {"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1"}
_GROUP = {
    **_ONE,
    "group_replication_group_name": "g",
    "group_replication_single_primary_mode": "ON",
    "group_replication_consistency": "BEFORE_ON_PRIMARY_FAILOVER",
}
_GALERA = {"innodb_flush_log_at_trx_commit": "2", "log_bin": "OFF", "wsrep_on": "ON", "wsrep_sync_wait": "0"}
_SEMI = {**_ONE, "rpl_semi_sync_source_enabled": "ON"}
_WAITS = {"Rpl_semi_sync_source_status": "ON"}


@pytest.mark.parametrize(
    ("settings", "standbys", "says", "risks"),
    [
        ({}, 0, "do not survive the loss of its disk", []),
        ({}, 2, "may lack those of the last moments", []),
        ({"synchronous_standby_names": "ANY 1 (b, c)"}, 2, "COMMIT waits for ANY 1 (b, c)", []),
        ({"synchronous_commit": "off"}, 0, "are lost by a crash of the server", ["synchronous commit"]),
        (
            {"synchronous_commit": "local", "synchronous_standby_names": "*"},
            1,
            "COMMIT waits for no standby",
            ["synchronous commit"],
        ),
        ({"fsync": "off", "full_page_writes": "off"}, 0, "", ["fsync", "full page writes"]),
    ],
)
def test_postgresql(settings: dict[str, str], standbys: int, says: str, risks: list[str]) -> None:
    found = of_postgresql({**_SAFE, **settings}, standbys, is_standby=False)
    assert says in found.survives
    assert [one.name for one in found.risks] == risks


@pytest.mark.parametrize(
    ("settings", "status", "says", "risks"),
    [
        (_ONE, {}, "COMMIT waits for no replica", []),
        ({**_ONE, "log_bin": "OFF"}, {}, "do not survive the loss of its disk", []),
        ({**_ONE, "sync_binlog": "0"}, {}, "are lost by a crash of the machine", ["sync binlog"]),
        ({**_ONE, "log_bin": "OFF", "sync_binlog": "0"}, {}, "survive a crash of the server", []),
        (_SEMI, _WAITS, "COMMIT waits for a replica", []),
        (_SEMI, {}, "COMMIT waits for none now", ["semi-synchronous replication off"]),
        (_GROUP, {}, "survive the loss of a node, and a crash of all nodes", []),
        (
            {**_GROUP, "group_replication_consistency": "EVENTUAL"},
            {},
            "survive the loss of a node",
            ["group replication consistency"],
        ),
        (
            _GALERA,
            {"wsrep_cluster_size": "3"},
            "not of all nodes at once, because innodb_flush_log_at_trx_commit = 2. Another node",
            [],
        ),
        (_GALERA, {"wsrep_cluster_size": "1"}, "one node left", ["innodb flush log at trx commit"]),
    ],
)
def test_mysql(settings: dict[str, str], status: dict[str, str], says: str, risks: list[str]) -> None:
    found = of_mysql(settings, status)
    assert says in found.survives
    assert [one.name for one in found.risks] == risks


def test_sqlite() -> None:
    assert of_sqlite(2, "wal").risks == ()
    [risk] = of_sqlite(1, "wal").risks
    assert risk.cause == "the setting synchronous = 1"

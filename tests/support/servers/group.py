"""MySQL Group Replication with several primaries: members that all take writes, and certify each other's."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from jdbcstore.testing.polling import wait_until
from tests.support.ports import free_port
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.mysql import MysqlServer

_PATIENCE = 120.0
_ONLINE = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'"


class GroupMember(MysqlServer):
    """One member, at its own port for clients and another for the group."""

    def __init__(self, group: str, members: list[GroupMember], folder: Path | None = None) -> None:
        self._group = group
        self._members = members
        self.group_port = free_port()
        members.append(self)
        super().__init__(folder)

    def _initialise(self, data: Path) -> None:
        first = self._members[0]
        self.administrator_password = first.administrator_password
        self.username, self.password = first.username, first.password
        super()._initialise(data)
        # The group takes no member with transactions of its own.
        script = self.directory / "init.sql"
        script.write_text(f"SET sql_log_bin = 0;\n{script.read_text()}")

    def _create_user(self) -> None:
        is_first = self is self._members[0]
        self.execute_as_administrator(
            f"CHANGE REPLICATION SOURCE TO SOURCE_USER = '{self.administrator}',"
            f" SOURCE_PASSWORD = '{self.administrator_password}' FOR CHANNEL 'group_replication_recovery'",
            f"SET GLOBAL group_replication_bootstrap_group = {int(is_first)}",
            "START GROUP_REPLICATION",
            "SET GLOBAL group_replication_bootstrap_group = 0",
        )
        if is_first:
            super()._create_user()

    def _options(self, data: Path) -> Sequence[str]:
        seeds = ",".join(f"{self.host}:{member.group_port}" for member in self._members)
        of_group = {
            "autorejoin-tries": "20",
            "enforce-update-everywhere-checks": "ON",
            "group-name": self._group,
            "group-seeds": seeds,
            "ip-allowlist": f"{self.host}/8",
            "local-address": f"{self.host}:{self.group_port}",
            "message-cache-size": str(128 << 20),
            "recovery-get-public-key": "ON",
            "single-primary-mode": "OFF",
            "start-on-boot": "OFF",
        }
        return [
            *super()._options(data),
            f"--server-id={self._members.index(self) + 1}",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--log-bin=binlog",
            "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=2",
            "--sync-binlog=0",
            f"--report-host={self.host}",
            f"--report-port={self.port}",
            "--plugin-load-add=group_replication.so",
            *[f"--loose-group-replication-{name}={value}" for name, value in of_group.items()],
        ]


class GroupReplication:
    """Members that serve; two are enough while both live."""

    def __init__(self, size: int = 2) -> None:
        self.nodes: list[GroupMember] = []
        group = str(uuid.uuid4())
        with ExitStack() as unless_started:
            unless_started.callback(self.close)
            for _ in range(size):
                GroupMember(group, self.nodes)
            wait_until(self._are_online, _PATIENCE, "that all are online")
            unless_started.pop_all()

    def _are_online(self) -> bool:
        return all(node.rows(_ONLINE) == [(len(self.nodes),)] for node in self.nodes)

    def settled(self, node: MariadbServer, query: str) -> list[tuple[object, ...]]:
        """The rows of a query once the member has applied all that any has committed."""
        for other in self.nodes:
            [(committed,)] = other.rows("SELECT @@gtid_executed")
            node.rows(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{committed}', {_PATIENCE})")
        return node.rows(query)

    def urls(self) -> list[str]:
        """The database through each node, with its password."""
        return [node.url.render_as_string(hide_password=False) for node in self.nodes]

    def close(self) -> None:
        for node in self.nodes:
            node.close()


class GroupServer(GroupMember):
    """The first of two members; the other starts and ends with it."""

    def __init__(self, folder: Path | None = None) -> None:
        group, members = str(uuid.uuid4()), list[GroupMember]()
        super().__init__(group, members, folder)
        self._other: GroupMember | None = None
        with ExitStack() as unless_started:
            unless_started.callback(self.close)
            self._other = GroupMember(group, members, folder)
            wait_until(lambda: self.rows(_ONLINE) == [(2,)], _PATIENCE, "that both are online")
            unless_started.pop_all()

    def close(self) -> None:
        if self._other is not None:
            self._other.close()
        super().close()

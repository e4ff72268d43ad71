"""A PostgreSQL with a synchronous standby, which takes over when the primary is killed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jdbcstore.testing.polling import wait_until
from tests.support.servers import PostgresqlServer

if TYPE_CHECKING:
    from tests.support.campaign.world import World


class Standby(PostgresqlServer):
    """A copy of a primary, which receives all that is committed there."""

    def __init__(self, primary: PostgresqlServer, folder: Path | None = None) -> None:
        self._primary = primary
        super().__init__(folder)

    def _initialise(self, data: Path) -> None:
        primary = self._primary
        self.username, self.password = primary.username, primary.password
        self.administrator_password = primary.administrator_password
        address = f"host={primary.host} port={primary.port} user={primary.administrator}"
        self._run(
            str(self.program("pg_basebackup")),
            *("-D", str(data), "-R", "-X", "stream", "-c", "fast", "--no-sync"),
            *("-d", f"{address} password={primary.administrator_password}"),
        )

    def _create_user(self) -> None:
        """The primary has created it."""

    def promote(self) -> None:
        """Make it a primary that waits for no standby."""
        self.execute_as_administrator(
            "SELECT pg_promote(true, 60)",
            "ALTER SYSTEM RESET synchronous_standby_names",
            "SELECT pg_reload_conf()",
        )


class Pair:
    """The server of a world and its standby."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._standby = self._add_standby()

    def _add_standby(self) -> Standby:
        primary, disk = self._world.server, self._world.disk
        assert isinstance(primary, PostgresqlServer)
        standby = Standby(primary, disk.folder if disk else self._world.folder)
        primary.execute_as_administrator(
            f"GRANT pg_monitor TO {primary.username}",  # else it does not see which standby is synchronous
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        )
        streams = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_until(lambda: self._world.database.rows(streams), 60.0, "that the standby is synchronous")
        return standby

    def fail_over(self) -> None:
        """Kill the primary, let the standby take over, and make another one."""
        old = self._world.server
        assert old is not None
        old.kill()
        self._standby.promote()
        self._world.use(self._standby)
        old.close()
        self._standby = self._add_standby()

    def start_again(self) -> None:
        """Start the standby if it has ended: the primary commits nothing without it."""
        if not self._standby.is_alive():
            self._standby.kill()
            self._standby.start()

    def close(self) -> None:
        """End the standby."""
        self._standby.close()

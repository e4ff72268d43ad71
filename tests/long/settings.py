"""``python -m tests.long.settings --vendor postgresql --count 100 --seed N``: sessions of any settings.

Each round puts some of the settings that a new session inherits to a value at their ends, chosen by the
seed, and runs the contract of ``tests/database/test_server_settings.py``. If that fails, each of them is
tried alone. An error of the store is an answer, as a time limit of a millisecond gives one, and the setting
is left out from then on; any other error, a wrong count, or no end within two minutes is a failure.
"""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click
from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import StoreError
from tests.support.databases import Database
from tests.support.servers import Server
from tests.support.servers.alone import SERVERS, server_of
from tests.support.servers.settings import failure_with

_PATIENCE = 120
_POSTGRESQL = """
    SELECT name, enumvals, min_val, max_val FROM pg_settings
    WHERE context IN ('user', 'superuser') AND vartype <> 'string' ORDER BY name
"""
_MARIADB = """
    SELECT VARIABLE_NAME, ENUM_VALUE_LIST, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE
    FROM information_schema.SYSTEM_VARIABLES
    WHERE VARIABLE_SCOPE = 'SESSION' AND READ_ONLY = 'NO' AND VARIABLE_TYPE <> 'VARCHAR' ORDER BY 1
"""
_MYSQL = """
    SELECT VARIABLE_NAME, NULL, MIN_VALUE, MAX_VALUE FROM performance_schema.variables_info
    WHERE VARIABLE_NAME IN (SELECT VARIABLE_NAME FROM performance_schema.session_variables)
    AND VARIABLE_NAME IN (SELECT VARIABLE_NAME FROM performance_schema.global_variables) ORDER BY 1
"""
_QUERIES = {"postgresql": _POSTGRESQL, "mariadb": _MARIADB, "mysql": _MYSQL}


class Inherited:
    """The settings of a server that its new sessions inherit, each with the values at its ends."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_postgresql = server.name == "postgresql"
        engine = create_engine(server.administrator_url, poolclass=NullPool)
        with engine.connect() as connection:
            found = connection.exec_driver_sql(_QUERIES[server.name]).fetchall()
            self.values = {str(name): self._ends(*rest) for name, *rest in found}
            self._before: dict[str, Any] = {}
            for name in () if self._is_postgresql else [*self.values]:
                try:
                    self._before[name] = connection.exec_driver_sql(f"SELECT @@GLOBAL.{name}").scalar()
                except DBAPIError:
                    del self.values[name]

    @staticmethod
    def _ends(words: Any, least: Any, most: Any) -> list[str]:
        if words:
            words = words.split(",") if isinstance(words, str) else words
            return [f"'{word}'" for word in words]
        ends = {str(end) for end in (least, most) if end not in (None, "", "0")} | {"0"}
        return sorted(ends) if len(ends) > 1 else ["0", "1"]

    def change(self, name: str, value: str) -> str:
        """Return the statement that has new sessions inherit a value."""
        if self._is_postgresql:
            return f"ALTER ROLE {self._server.username} SET {name} = {value}"
        return f"SET GLOBAL {name} = {value}"

    def undo(self, name: str) -> str:
        """Return the statement that undoes this."""
        if self._is_postgresql:
            return f"ALTER ROLE {self._server.username} RESET {name}"
        before = self._before[name]
        return f"SET GLOBAL {name} = {before if isinstance(before, int | float) else repr(before)}"

    def takes(self, name: str, value: str) -> bool:
        """Return whether the server lets this be set, and lives on."""
        takes = False
        with suppress(DBAPIError, TypeError):
            self._server.execute_as_administrator(self.change(name, value))
            self._server.execute_as_administrator(self.undo(name))
            takes = True
        with suppress(DBAPIError, TypeError):
            self._server.execute_as_administrator("SELECT 1")
            return takes
        click.echo(f"no session with {name} = {value}")
        self._server.stop_at_once()
        self._server.start()
        return False


def _failure(inherited: Inherited, server: Server, database: Database, some: Sequence[Any]) -> Any:
    signal.alarm(_PATIENCE)
    try:
        changes = [inherited.change(*one) for one in some]
        return failure_with(server, database, changes, [inherited.undo(name) for name, _ in some])
    finally:
        signal.alarm(0)


def _late(*_: object) -> None:
    raise TimeoutError("no end")


@click.command(help=__doc__)
@click.option("--vendor", type=click.Choice(SERVERS), default="postgresql", show_default=True)
@click.option("--count", default=100, show_default=True, help="Rounds.")
@click.option("--together", default=4, show_default=True, help="Settings of one round.")
@click.option("--seed", default=1, show_default=True)
def main(vendor: str, count: int, together: int, seed: int) -> None:
    signal.signal(signal.SIGALRM, _late)
    chance, wrong, tried = random.Random(seed), 0, set[tuple[str, str]]()
    with server_of(vendor) as (server, make):
        inherited = Inherited(server)
        ends = [(name, value) for name, values in inherited.values.items() for value in values]
        ends = [one for one in ends if inherited.takes(*one)]
        click.echo(f"{len(ends)} values of {len({name for name, _ in ends})} settings")
        for _ in range(count):
            some = [*dict(chance.sample(ends, together)).items()]
            tried.update(some)
            if _failure(inherited, server, make(), some) is None:
                continue
            blamed = False
            for one in some:
                error = _failure(inherited, server, make(), [one])
                if error is not None:
                    blamed = True
                    is_answer = isinstance(error, StoreError)
                    wrong += not is_answer
                    ends = [each for each in ends if each != one]
                    text = " ".join(str(error).split())[:200]
                    click.echo(
                        f"{'refused' if is_answer else 'WRONG'}: {one}: {type(error).__name__}: {text}"
                    )
            if not blamed:
                error = _failure(inherited, server, make(), some)
                wrong += error is not None and not isinstance(error, StoreError)
                click.echo(f"only together: {some}: {error!r}"[:400])
    click.echo(f"{len(tried)} values in {count} rounds, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

"""The schema and the master's address, looked up in a thread and cached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from jdbcstore.errors import StoreError
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_SCHEMA_PERIOD = 60.0
_MASTER_PERIOD = 10.0
_MASTER_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class SchemaView:
    """The schema of the database."""

    revision: str | None
    """The recorded revision."""
    found: str | None
    """The last complete revision."""
    missing: tuple[str, ...]
    """The steps of a migration."""
    wrong: tuple[str, ...]
    """Differences that a migration cannot change."""


Schema = Callable[[], SchemaView]
"""Reads the schema; called in a thread."""
Master = Callable[[], str | None]
"""Finds the address of the master's management, if it has one; called in a thread."""


class Lookups:
    """The schema, and the address of the master while this broker is not serving.

    Both are cached, so they are not looked up for each refresh of a page.
    """

    def __init__(self, *, schema: Schema | None, master: Master | None, clock: Clock) -> None:
        self._look_at_schema = schema
        self._find_master = master
        self._clock = clock
        self._schema: tuple[float, SchemaView] | None = None
        """The schema, and the time when it was read."""
        self._master: tuple[float, str | None] | None = None
        """The address of the master, and the time when it was read."""

    async def schema(self) -> SchemaView | None:
        """Return the schema; None for a source without one.

        :raises StoreError: the database cannot be read
        """
        now, look = self._clock.monotonic(), self._look_at_schema
        if look is not None and (self._schema is None or now - self._schema[0] > _SCHEMA_PERIOD):
            self._schema = now, await asyncio.to_thread(look)
        return None if self._schema is None else self._schema[1]

    async def master(self) -> str | None:
        """Return the address of the master's management; None if it has none, or cannot be found."""
        now, find = self._clock.monotonic(), self._find_master
        url = None if self._master is None else self._master[1]
        if find is not None and (self._master is None or now - self._master[0] > _MASTER_PERIOD):
            self._master = now, url  # others must not wait for a database that does not answer
            try:
                async with asyncio.timeout(_MASTER_TIMEOUT):
                    url = await asyncio.to_thread(find)
                self._master = now, url
            except (StoreError, TimeoutError) as error:
                log.debug("cannot read the address of the master", exc_info=error)
        return url if url is not None and url.startswith("http://") else None

"""The base of the live views of ``top``, which read periodically and on demand."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from textual.app import App


class LiveView(App[None]):
    """A view that reads at intervals.

    :param period: seconds between readings
    """

    TITLE = "jdbcstore top"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, period: float) -> None:
        super().__init__()
        self._period = period
        self._wanted = asyncio.Event()

    def action_read(self) -> None:
        self._wanted.set()

    async def follow(self) -> None:
        """Read while the view is shown."""
        while True:
            self._wanted.clear()
            await self.read()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), self._period)

    async def read(self) -> None:
        """Read once, and show the result or the error."""
        raise NotImplementedError

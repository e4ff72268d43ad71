"""A broker's event loop that counts its turns."""

from __future__ import annotations

from typing import Any

from jdbcstore.broker.turns import TurnLoop


class CountingLoop(TurnLoop):
    """Counts its turns, each of which begins with a look for events."""

    turns = 0

    def _select(self, timeout: float | None = None) -> Any:
        self.turns += 1
        return super()._select(timeout)

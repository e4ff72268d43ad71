"""A broker's event loop that counts its turns."""

from __future__ import annotations

from jdbcstore.broker.turns import TurnLoop


class CountingLoop(TurnLoop):
    """Counts its turns, each of which begins with a look for events."""

    turns = 0

    def _end(self) -> bool:
        self.turns += 1
        return super()._end()

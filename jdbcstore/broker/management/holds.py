"""Messages that an administrator has been given to consume, until they are acknowledged or given back."""

from __future__ import annotations

import asyncio
from asyncio import Future, TimerHandle
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_urlsafe

from jdbcstore.broker.engine import Engine
from jdbcstore.broker.memory import Entry
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.errors import DestinationFull, MessageNotFound

HOLD = 60.0
"""Seconds after which messages are given back that were not acknowledged."""
_MOST = 100


@dataclass(eq=False, repr=False)
class _Hold:
    engine: Engine
    queue: Queue
    entries: list[Entry]
    timer: TimerHandle


class Holds:
    """The messages that are held, each batch under a token that is hard to guess."""

    def __init__(self) -> None:
        self._held: dict[str, _Hold] = {}

    def check_room(self) -> None:
        """
        :raises DestinationFull: too many are held
        """
        if len(self._held) >= _MOST:
            raise DestinationFull(f"{_MOST} batches of messages are held; acknowledge them first")

    def hold(self, engine: Engine, queue: Queue, entries: Sequence[Entry]) -> str:
        """Hold entries that were taken from the reach of consumers; returns their token."""
        token = token_urlsafe(16)
        timer = asyncio.get_running_loop().call_later(HOLD, self._give_back, token)
        self._held[token] = _Hold(engine, queue, [*entries], timer)
        return token

    def acknowledge(self, token: str) -> tuple[Queue, int, Future[None]]:
        """Remove what is held under a token: its queue, its number, and when that is durable.

        :raises MessageNotFound: nothing is: it was given back
        """
        hold = self._held.pop(token, None)
        if hold is None or hold.engine.is_stopping:
            raise MessageNotFound(
                "these messages are not held any more, and are delivered again; consume again"
            )
        hold.timer.cancel()
        return hold.queue, len(hold.entries), hold.queue.acknowledge(hold.entries)

    def _give_back(self, token: str) -> None:
        hold = self._held.pop(token, None)
        if hold is not None and not hold.engine.is_stopping:
            hold.queue.give_back(hold.entries)

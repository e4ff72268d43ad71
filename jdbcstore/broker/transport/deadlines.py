"""The timers of one connection: its login, its heart-beats, and its idle time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from jdbcstore.broker.transport.output import ClientOutput
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import ProtocolError

_TOLERANCE = 2.0
"""The maximum time between a client's heart-beats, in agreed intervals."""
_PUNCTUALITY = 0.9
"""The time between the broker's heart-beats, in agreed intervals, so that none arrives late."""


class Timed(Protocol):
    """A connection's interface for its timers."""

    @property
    def read_at(self) -> float:
        """The time of the loop at which data was last received."""

    @property
    def reads(self) -> bool:
        """Whether its input is being read."""

    def fail(self, error: BaseException) -> None: ...

    def end(self, reason: str) -> None: ...

    def abort(self, reason: str) -> None: ...


class Deadlines:
    """Ends a connection whose client is silent for too long, and sends heart-beats.

    :param heart_beat: the frame of a heart-beat
    """

    def __init__(
        self, *, config: ConnectorConfig, output: ClientOutput, connection: Timed, heart_beat: bytes
    ) -> None:
        self._config = config
        self._output = output
        self._connection = connection
        self._heart_beat = heart_beat
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Callable[..., None], asyncio.TimerHandle] = {}
        """Timers by their callbacks."""

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: float) -> None:
        """Call back after ``delay`` seconds, unless cancelled by :meth:`cancel`."""
        self._timers[callback] = self._loop.call_later(delay, callback, *arguments)

    def cancel(self) -> None:
        """Stop all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def expect_login(self) -> None:
        """End the connection if the client does not log in in time."""
        if self._config.connect_attempt_timeout:
            self.call_later(self._config.connect_attempt_timeout, self._login_timed_out)

    def logged_in(self) -> None:
        """Stop the login timer, and start the idle timer."""
        self.cancel()
        if self._config.idle_timeout:
            self._check_idle()

    def start_heart_beats(self, from_client: float, from_broker: float, delay: float = 0.0) -> None:
        """Expect heart-beats of the client, and send heart-beats, at these intervals in seconds; 0 means
        none.

        The client sends its first one up to ``delay`` seconds later.
        """
        if from_client:
            allowed = from_client * _TOLERANCE
            self.call_later(delay + allowed, self._check_heart_beat, allowed)
        if from_broker:
            self._send_heart_beat(from_broker * _PUNCTUALITY)

    def _login_timed_out(self) -> None:
        seconds = self._config.connect_attempt_timeout
        self._connection.fail(
            ProtocolError(f"the client did not log in within {seconds:g} seconds", fatal=True)
        )

    def _check_idle(self) -> None:
        allowed = self._config.idle_timeout
        idle = self._loop.time() - max(self._connection.read_at, self._output.written_at)
        if idle < allowed:
            self.call_later(allowed - idle, self._check_idle)
            return
        self._connection.end(f"idle for {idle:.1f} seconds")

    def _check_heart_beat(self, allowed: float) -> None:
        silent = self._loop.time() - self._connection.read_at if self._connection.reads else 0.0
        if silent < allowed:
            self.call_later(allowed - silent, self._check_heart_beat, allowed)
            return
        self._connection.abort(f"no heart-beat for {silent:.1f} seconds")

    def _send_heart_beat(self, interval: float) -> None:
        silent = self._loop.time() - self._output.written_at
        if silent >= interval and not self._output.paused:
            self._output.write(self._heart_beat)
        delay = interval - silent if silent < interval else interval
        self.call_later(delay, self._send_heart_beat, interval)

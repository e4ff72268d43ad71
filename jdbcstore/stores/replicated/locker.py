"""StreamLocker: a lock on the servers of the journal's stream, a key that expires."""

from __future__ import annotations

import secrets
import time
from contextlib import closing
from typing import Any, ClassVar

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.journal.stream.connection import NatsConnection
from jdbcstore.journal.stream.keys import StreamKeys, peek
from jdbcstore.lockers.base import AbstractLocker

_KEY = "master"
_BELIEVED = 0.8
"""The part of the time of a key for which the lock is believed to be held after it was put."""
_PAUSE = 0.1
"""Seconds between two looks at a lock that another holds."""


class StreamLocker(AbstractLocker):
    """A key in the bucket ``STREAM-lock``, which the master puts again and again, and which else expires.

    It is put only if it does not exist, or as the master has put it last: what two put at once, a quorum of
    the servers decides. For four fifths of the key's time the lock counts as held. The servers' clocks decide
    when it expires, so a clock that jumps may end it early: the journal's stream refuses the old master in
    any case.

    :raises ConfigurationError: the journal is not in a stream
    """

    type: ClassVar[str] = "stream-locker"

    def __init__(
        self, *, journal: JournalConfig | None = None, session_timeout: float = 10.0, **options: Any
    ) -> None:
        super().__init__(**options)
        if journal is None or journal.stream is None:
            raise ConfigurationError(
                "the stream-locker is on the servers of the journal's stream, and there is none: set stream"
                " in the section journal",
                option="locker.type",
            )
        self._journal = journal
        self._timeout = session_timeout
        self._token = secrets.token_hex(8)
        """The difference from other holders of the same name."""
        self._connection: NatsConnection | None = None
        self._keys: StreamKeys | None = None
        self._revision = 0
        """Of the key, while it is ours; 0 while it is not."""
        self._first: str | None = None
        self._confirmed = float("-inf")

    @property
    def _value(self) -> bytes:
        return f"{self._token} {self.name}".encode()

    def do_start(self, max_wait: float) -> bool:
        deadline = time.monotonic() + max_wait
        keys = self._connected()
        while True:
            asked = self.clock.monotonic()
            key = keys.get(_KEY)
            if key is not None and key.value == self._value:
                self._revision = key.revision  # the answer was lost; it is as old as may be
                return self._put(keys, asked)
            if key is None or not key.value:
                self._revision = 0 if key is None else key.revision
                if self._put(keys, asked):
                    return True
                continue
            self._first = key.value.decode(errors="replace").partition(" ")[2]
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._stopping.wait(min(_PAUSE, left))

    def look(self) -> str | None:
        with closing(NatsConnection(self._journal)) as connection:
            value = peek(connection, self._bucket, _KEY)
        return value.decode(errors="replace").partition(" ")[2] if value else None

    @property
    def _bucket(self) -> str:
        return f"{self._journal.stream_name}-lock"

    def _connected(self) -> StreamKeys:
        if self._keys is None:
            if self._connection is None:
                self._connection = NatsConnection(self._journal)
            self._keys = StreamKeys(self._connection, self._bucket, self._journal.replicas, self._timeout)
            self._timeout = self._keys.ttl
        return self._keys

    def _put(self, keys: StreamKeys, asked: float) -> bool:
        """Put the key if it is as it was last seen; ``asked`` is when the lock was asked for."""
        revision = keys.put(_KEY, self._value, after=self._revision)
        if revision is None:
            return False
        self._revision, self._confirmed = revision, asked
        return True

    def keep_alive(self) -> bool:
        """Renew the key. A key that has expired, or is another process's, is a lost lock."""
        if self._keys is None or not self._revision:
            return False
        asked = self.clock.monotonic()
        if self._put(self._keys, asked):
            return True
        key = self._keys.get(_KEY)
        if key is None or key.value != self._value:
            self._revision = 0
            return False
        self._revision = key.revision  # put before, with its answer lost
        return self._put(self._keys, asked)

    @property
    def held_until(self) -> float:
        return self._confirmed + _BELIEVED * self._timeout

    @property
    def holder(self) -> str | None:
        return self._first

    def do_stop(self) -> None:
        """Delete the key, if it is ours, so that the next one does not wait for its end."""
        self._confirmed = float("-inf")
        keys, self._keys, revision, self._revision = self._keys, None, self._revision, 0
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with closing(connection):
            if keys is not None and revision:
                keys.delete(_KEY, after=revision)

    def _pause_after(self, failure: StoreError) -> float:  # noqa: ARG002
        return _PAUSE  # an attempt has waited already

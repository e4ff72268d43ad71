"""Keys beside a stream: a bucket of NATS's key-value store, whose keys may expire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from nats.errors import Error as NatsError
from nats.js.api import DiscardPolicy, StreamConfig
from nats.js.errors import APIError, NotFoundError

from jdbcstore.errors import StoreUnavailable
from jdbcstore.journal.stream.connection import ANSWER, NatsConnection

T = TypeVar("T")

_WRONG_LAST = 10071
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_DELETED = {"KV-Operation": "DEL"}


class Key(NamedTuple):
    """The value of a key."""

    value: bytes
    revision: int
    """Of its last change, among those of all keys."""
    changed: datetime
    """The time of its last change by the servers' clocks."""


def peek(connection: NatsConnection, bucket: str, key: str) -> bytes | None:
    """Return the value of a key; None if it, or its bucket, does not exist. Nothing is created.

    :raises StoreUnavailable: the servers do not answer
    """
    try:
        message = connection.ask(lambda js: js.get_last_msg(f"KV_{bucket}", f"$KV.{bucket}.{key}"))
    except NotFoundError:
        return None
    is_deleted = (message.headers or {}).get("KV-Operation") in ("DEL", "PURGE")
    return None if is_deleted else message.data or None


class StreamKeys:
    """The keys of one bucket, which is created if it does not exist. Thread-safe.

    A key that was not put for ``ttl`` seconds is gone. A call waits some seconds for an answer.
    """

    def __init__(self, connection: NatsConnection, bucket: str, replicas: int, ttl: float) -> None:
        self._connection = connection
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."
        self._replicas = replicas
        self.ttl = connection.ask(lambda js: self._find(js, ttl))
        """Seconds, as it was created with."""

    async def _find(self, js: Any, ttl: float) -> float:
        try:
            info = await js.stream_info(self._stream)
        except NotFoundError:
            wanted = StreamConfig(
                name=self._stream,
                subjects=[f"{self._prefix}>"],
                description="status reports between the brokers of a jdbcstore journal",
                max_msgs_per_subject=1,
                max_age=ttl,
                duplicate_window=min(ttl, 120.0),
                discard=DiscardPolicy.NEW,
                allow_rollup_hdrs=True,
                num_replicas=self._replicas,
            )
            try:
                info = await js.add_stream(wanted)
            except APIError:  # another broker was faster, with another time
                info = await js.stream_info(self._stream)
        return float(info.config.max_age or ttl)

    def put(self, key: str, value: bytes, *, after: int | None = None) -> int | None:
        """Put a key, if its revision is ``after`` (0: it does not exist); return its new revision, or None.

        :raises StoreUnavailable: the answer did not come; it may have been put
        """
        return self._put(key, value, after, {})

    def delete(self, key: str, *, after: int) -> None:
        """Delete a key, if its revision is ``after``."""
        self._put(key, b"", after, _DELETED)

    def _put(self, key: str, value: bytes, after: int | None, headers: dict[str, str]) -> int | None:
        if after is not None:
            headers = {**headers, _EXPECTED: str(after)}

        async def put(js: Any) -> int | None:
            try:
                answer = await js.publish(
                    f"{self._prefix}{key}", value, timeout=ANSWER, stream=self._stream, headers=headers
                )
            except APIError as error:
                if error.err_code == _WRONG_LAST:
                    return None
                raise
            return int(answer.seq)

        return self._once(put)

    def get(self, key: str) -> Key | None:
        """Return a key; None if it does not exist.

        :raises StoreUnavailable: the answer did not come
        """
        return self._once(lambda js: self._get(js, f"{self._prefix}{key}"))

    async def _get(self, js: Any, subject: str) -> Key | None:
        try:
            message = await js.get_last_msg(self._stream, subject)
        except NotFoundError:
            return None
        is_deleted = (message.headers or {}).get("KV-Operation") in ("DEL", "PURGE")
        return Key(b"" if is_deleted else message.data or b"", message.seq, message.time)

    def every(self) -> dict[str, Key]:
        """Return the keys that exist.

        :raises StoreUnavailable: an answer did not come
        """

        async def ask(js: Any) -> dict[str, Key]:
            info = await js.stream_info(self._stream, subjects_filter=">")
            keys = {}
            for subject in info.state.subjects or {}:
                key = await self._get(js, subject)
                if key is not None and key.value:
                    keys[subject.removeprefix(self._prefix)] = key
            return keys

        return self._once(ask)

    def _once(self, work: Callable[[Any], Awaitable[T]]) -> T:
        async def run() -> T:
            try:
                return await asyncio.wait_for(work(self._connection.js), ANSWER)
            except (NatsError, OSError, TimeoutError) as error:
                raise self._connection.unavailable(error) from error

        try:
            return self._connection.run(run())
        except NotFoundError as error:
            raise StoreUnavailable(f"{self._stream} was deleted on the servers of the stream") from error

"""The stored bytes behind a decoded message, read when someone looks into it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jdbcstore.errors import CorruptMessage
from jdbcstore.message.body import NO_PROPERTIES, Body
from jdbcstore.message.message import Message
from jdbcstore.message.openwire.bodies import decode_body
from jdbcstore.message.openwire.primitives import decode_map
from jdbcstore.message.openwire.types import Malformed
from jdbcstore.message.values import Value

NOWHERE = -1


class StoredBytes:
    """A blob, and where in it a message's content and properties are.

    ``version`` is that of the blob if the message is still all that the blob says, and else 0. A size
    of -1 says that there is no content (or no properties), a place of -1 that the message has a new one.
    """

    __slots__ = (
        "blob",
        "container",
        "content_at",
        "content_size",
        "properties_at",
        "properties_size",
        "sequence_offset",
        "version",
    )

    def __init__(
        self,
        blob: bytes,
        version: int,
        sequence_offset: int,
        content_at: int,
        content_size: int,
        properties_at: int,
        properties_size: int,
        container: str | None,
    ) -> None:
        self.blob = blob
        self.version = version
        self.sequence_offset = sequence_offset
        self.content_at = content_at
        self.content_size = content_size
        self.properties_at = properties_at
        self.properties_size = properties_size
        self.container = container

    @property
    def body_size(self) -> int:
        return max(self.content_size, 0)

    @property
    def size(self) -> int:
        return len(self.blob)

    @property
    def content(self) -> bytes | None:
        return self._slice(self.content_at, self.content_size)

    @property
    def marshalled_properties(self) -> bytes | None:
        return self._slice(self.properties_at, self.properties_size)

    def _slice(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else self.blob[at : at + size]

    def read_body(self, message: Message) -> Body:
        try:
            return decode_body(self.content, message.body_type, message.compressed)
        except Malformed as error:
            raise self._corrupt(error, message) from error

    def read_properties(self, message: Message) -> Mapping[str, Value]:
        marshalled = self.marshalled_properties
        if marshalled is None:
            return NO_PROPERTIES
        try:
            return MappingProxyType(decode_map(marshalled))
        except Malformed as error:
            raise self._corrupt(error, message) from error

    def _corrupt(self, error: Malformed, message: Message) -> CorruptMessage:
        destination = message.destination
        container = self.container or (destination.qualified_name if destination else None)
        return CorruptMessage(str(error), blob=self.blob, sequence=message.sequence, container=container)

    def part(self, *, body: bool, properties: bool) -> StoredBytes | None:
        if not body and not properties:
            return None
        return StoredBytes(
            self.blob,
            0,
            NOWHERE,
            self.content_at if body else NOWHERE,
            self.content_size,
            self.properties_at if properties else NOWHERE,
            self.properties_size,
            self.container,
        )

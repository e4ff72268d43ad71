"""Messages that the backing store refused, set aside in files so that others can be written.

They are in the folder ``refused`` of the journal's directory, or in objects beside its stream, one file each:
a line of JSON with the facts and the reason, and then the message as in a record of the journal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from jdbcstore.errors import CorruptMessage, InvalidMessage, MessageNotFound, StoreError, StoreUnavailable
from jdbcstore.journal.abc import Aside
from jdbcstore.journal.directory import AsideFolder
from jdbcstore.message import openwire
from jdbcstore.message.message import Message
from jdbcstore.stores.journaled.records import RecordedWrites, decode_writes, encode_writes
from jdbcstore.stores.shared.rows import EncodedMessage

FOLDER = "refused"
_SUFFIX = ".message"
_OF_A_ROW = ("DataError", "IntegrityError")
"""Class names of DB-API errors about a row."""


def refuses_a_row(error: StoreError) -> bool:
    """Return whether an error is about a row, and not about the database."""
    if isinstance(error, InvalidMessage):
        return True
    if type(error) is not StoreError:
        return False
    cause: BaseException | None = error.__cause__
    while cause is not None:
        names = {kind.__name__ for kind in type(cause).__mro__}
        if isinstance(cause, ValueError | TypeError | OverflowError) or names.intersection(_OF_A_ROW):
            return True
        cause = cause.__cause__
    return False


def row_of(message: Message) -> EncodedMessage:
    """Return the row of a message that was stored before."""
    name, destination = message.message_id, message.destination
    if name is None or destination is None:
        raise InvalidMessage("a stored message has an id and a destination, and this one does not")
    blob, slot = openwire.encode_for_store(
        message, destination=destination, message_id=name, timestamp_ms=message.timestamp_ms or 0
    )
    producer, container = str(name.producer_id), destination.qualified_name
    return EncodedMessage(
        name,
        producer,
        name.producer_sequence,
        container,
        message.expiration_ms,
        message.priority,
        blob,
        slot,
    )


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that the journal has and the backing store refuses."""

    sequence: int
    """Its ID; it names the message in the commands of ``jdbcstore journal``."""
    destination: str
    """The qualified name."""
    message_id: str
    size: int
    """Bytes."""
    is_update: bool
    """Whether these are new contents of a stored message."""
    refused_ms: int
    """Epoch milliseconds."""
    reason: str
    encoded: EncodedMessage

    @property
    def message(self) -> Message:
        """
        :raises CorruptMessage: it cannot be decoded
        """
        return openwire.decode(self.encoded.blob, sequence=self.sequence, container=self.destination)


class Refused:
    """The refused messages of one journal: of that in a directory, or those beside another. Thread-safe."""

    def __init__(self, kept: Path | Aside) -> None:
        self._kept: Aside = AsideFolder(kept / FOLDER) if isinstance(kept, Path) else kept

    def every(self) -> list[RefusedMessage]:
        """Return all refused messages, oldest first.

        :raises StoreUnavailable: a file cannot be read
        :raises CorruptMessage: one is damaged
        """
        messages = []
        with self._translated():
            for name in self._kept.names():
                data = self._kept.read(name) if name.endswith(_SUFFIX) else None
                if data is not None:
                    messages.append(self._decoded(data, name))
        return sorted(messages, key=lambda message: message.sequence)

    def _decoded(self, data: bytes, name: str) -> RefusedMessage:
        return _decode(data, f"{self._kept.place}/{name}")

    def find(self, sequence: int) -> RefusedMessage:
        """Raise :class:`MessageNotFound` if it is not set aside."""
        name = f"{sequence}{_SUFFIX}"
        with self._translated():
            data = self._kept.read(name)
        if data is None:
            raise MessageNotFound(f"no message with the ID {sequence} is set aside in {self._kept.place}")
        return self._decoded(data, name)

    def keep(
        self, sequence: int, message: EncodedMessage, reason: str, now_ms: int, *, is_update: bool
    ) -> None:
        """Set a message aside, durably; :class:`StoreUnavailable` if it cannot be written."""
        body = b"".join(encode_writes(RecordedWrites(updates=[(sequence, message)]))[0])
        facts = {
            "sequence": sequence,
            "destination": message.container,
            "message_id": str(message.message_id),
            "bytes": len(message.blob),
            "is_update": is_update,
            "refused_ms": now_ms,
            "reason": reason,
            "crc32": crc32(body),
        }
        with self._translated():
            self._kept.write(f"{sequence}{_SUFFIX}", json.dumps(facts).encode() + b"\n" + body)

    def drop(self, sequence: int) -> None:
        """Delete a refused message, if it is set aside; :class:`StoreUnavailable` if it cannot be removed."""
        with self._translated():
            self._kept.remove(f"{sequence}{_SUFFIX}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"the refused messages in {self._kept.place} cannot be read or written: {error.strerror};"
                " check the disk"
            ) from error


def _decode(data: bytes, path: str) -> RefusedMessage:
    line, _, body = data.partition(b"\n")
    try:
        facts = json.loads(line)
        if crc32(body) != facts["crc32"]:
            raise ValueError("its checksum is wrong")
        [(sequence, message)] = decode_writes(body).updates
        return RefusedMessage(
            sequence=sequence,
            destination=message.container,
            message_id=str(message.message_id),
            size=len(message.blob),
            is_update=bool(facts["is_update"]),
            refused_ms=int(facts["refused_ms"]),
            reason=str(facts["reason"]),
            encoded=message,
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, StoreError) as error:
        raise CorruptMessage(
            f"{path} is damaged: {error}; move it away", blob=data, sequence=0, container=""
        ) from error

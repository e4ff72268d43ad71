"""Messages that SQL statements insert: the columns of a row, and the message or the dead letter of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from jdbcstore.errors import InvalidMessage
from jdbcstore.message.dead_letters import CAUSE, DEAD_LETTERS
from jdbcstore.message.destination import Destination
from jdbcstore.message.jobs import JOBS
from jdbcstore.message.message import AnyBody, BodyType, Message

_LONGEST_REASON = 1000
_LONGEST_DELAY_MS = 1 << 62
_BODY_TYPES = (BodyType.TEXT, BodyType.BYTES, BodyType.MAP)


class InsertedMessage(NamedTuple):
    """A row of JDBCSTORE_OUTBOX, as an application has inserted it, unchecked; None is the default."""

    row_id: int
    destination: str
    """A qualified name such as ``queue://ORDERS``; a bare name is the name of a queue."""
    body: str | None
    body_bytes: bytes | None
    body_type: str | None
    """``text``, ``bytes``, or ``map`` with a JSON object in ``body``; by default as the body is."""
    properties: str | None
    """A JSON object."""
    priority: int | None
    persistent: int | None
    """0: the message is not stored."""
    delay_ms: int | None
    """The delay after the row was moved."""
    expiration_ms: int | None
    correlation_id: str | None
    reply_to: str | None
    jms_type: str | None
    group_id: str | None
    send_id: str | None
    """The sender's own identifier, against duplicates."""
    created_ms: int | None
    is_duplicate: int
    """Whether a message with this ``send_id`` was moved before."""

    def message(self) -> Message:
        """Return the message, with its destination.

        :raises InvalidMessage: a column has a wrong value
        :raises InvalidDestination: it does not name a destination that outlives connections
        """
        destination = _destination(self.destination)
        body, body_type = self._body()
        # SQLite keeps any value, and the time of the delay's end has to fit its column.
        if not isinstance(self.delay_ms, int | None) or (self.delay_ms or 0) > _LONGEST_DELAY_MS:
            raise InvalidMessage(f"DELAY is {self.delay_ms!r}; insert milliseconds")
        return Message(
            body,
            body_type=body_type,
            destination=destination,
            properties=_object("PROPERTIES", self.properties),
            priority=4 if self.priority is None else self.priority,
            persistent=self.persistent != 0,
            timestamp_ms=self.created_ms,
            expiration_ms=self.expiration_ms or 0,
            correlation_id=self.correlation_id,
            reply_to=None if self.reply_to is None else Destination.named(self.reply_to),
            jms_type=self.jms_type,
            group_id=self.group_id,
        )

    def _body(self) -> tuple[AnyBody, BodyType]:
        if self.body is not None and self.body_bytes is not None:
            raise InvalidMessage("BODY and BODY_BYTES are both set; set one of them")
        usual = BodyType.TEXT if self.body_bytes is None else BodyType.BYTES
        kind = usual if self.body_type is None else self.body_type.strip().lower()
        if kind not in _BODY_TYPES:
            raise InvalidMessage(f"BODY_TYPE is {self.body_type!r}; use {', '.join(_BODY_TYPES)}")
        if (kind == BodyType.BYTES) != (self.body_bytes is not None):
            column = "BODY_BYTES" if kind == BodyType.BYTES else "BODY"
            raise InvalidMessage(f"BODY_TYPE is {kind}, which needs its body in {column}")
        if kind == BodyType.BYTES:
            return self.body_bytes, BodyType.BYTES
        return (_object("BODY", self.body), BodyType.MAP) if kind == BodyType.MAP else (self.body, usual)

    def dead_letter(self, reason: str, target: Destination = DEAD_LETTERS) -> Message:
        """Return a dead letter with the reason, the body, and the properties as they were inserted.

        :raises InvalidMessage: nothing can be sent
        """
        properties = {CAUSE: short(f"{reason} (the outbox row {self.row_id} to {self.destination})")}
        if self.properties is not None:
            properties["PROPERTIES"] = self.properties
        return Message(
            self.body if self.body_bytes is None else self.body_bytes,
            destination=target,
            properties=properties,
            timestamp_ms=self.created_ms,
            correlation_id=self.correlation_id,
        )


@lru_cache(maxsize=1024)
def _destination(name: str) -> Destination:
    """Return a destination for inserted messages; rows repeat few names.

    :raises InvalidMessage: it cannot have any
    :raises InvalidDestination: it is not the name of a destination
    """
    destination = Destination.named(name)
    if destination.is_temporary:
        raise InvalidMessage(f"{destination} is temporary; send to a queue or topic")
    if destination == JOBS:
        raise InvalidMessage(f"{JOBS} is reserved for scheduled messages; use another queue")
    return destination


def short(reason: str) -> str:
    """Return a reason that may quote a message, so that any log and database can have it."""
    return reason[:_LONGEST_REASON].encode("ascii", "backslashreplace").decode()


def _object(column: str, text: str | None) -> Mapping[str, Any] | None:
    """Return a JSON object.

    :raises InvalidMessage: the text is something else
    """
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"{column} is not JSON: {error}; insert a JSON object") from error
    if not isinstance(value, dict):
        raise InvalidMessage(f"{column} is not a JSON object, such as {{}}")
    return value

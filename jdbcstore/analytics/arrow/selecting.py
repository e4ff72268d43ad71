"""JMS selectors over Arrow columns: only the headers and properties that a selector names are decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import ColumnElement

from jdbcstore.analytics.arrow.table import Rows
from jdbcstore.analytics.batch import Batch
from jdbcstore.analytics.columns import COLUMNS
from jdbcstore.analytics.properties import Entries, properties_of
from jdbcstore.database.tables import Tables
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import NO_PROPERTIES
from jdbcstore.message.openwire import decode
from jdbcstore.message.openwire.encoder import encode_utf
from jdbcstore.message.selector import Selector
from jdbcstore.message.values import Byte, Char, Long, Short, Value

_DECODERS = {column.name: column.decode for column in COLUMNS}


def _decoded(name: str) -> Callable[[Rows], pa.Array]:
    return lambda rows: rows.batch.column(_DECODERS[name])


def _destination(rows: Rows) -> pa.Array:
    """The original destination; else the message's own."""
    batch = rows.batch
    return batch.names(batch.envelopes.destination, lambda message: message.destination)


# By JMS header: the attributes of a message that the selector reads, and the columns that have them.
_HEADERS: dict[str, dict[str, Callable[[Rows], pa.Array]]] = {
    "JMSDeliveryMode": {"persistent": _decoded("persistent")},
    "JMSPriority": {"priority": _decoded("jms_priority")},
    "JMSMessageID": {"message_id": _decoded("message_id")},
    "JMSTimestamp": {"timestamp_ms": _decoded("timestamp")},
    "JMSCorrelationID": {"correlation_id": _decoded("correlation_id")},
    "JMSType": {"jms_type": _decoded("jms_type")},
    "JMSDestination": {
        "original_destination": _decoded("original_destination"),
        "destination": _destination,
    },
    "JMSReplyTo": {"reply_to": _decoded("reply_to")},
    "JMSRedelivered": {"redelivery_counter": _decoded("redelivery_counter")},
    "JMSXDeliveryCount": {"redelivery_counter": _decoded("redelivery_counter")},
    "JMSXGroupID": {"group_id": _decoded("group_id")},
    "JMSXGroupSeq": {"group_sequence": _decoded("group_sequence")},
    "JMSActiveMQBrokerInTime": {"broker_in_time_ms": _decoded("broker_in_time")},
    "JMSActiveMQBrokerOutTime": {"broker_out_time_ms": _decoded("broker_out_time")},
}
_WHOLE = frozenset({"JMSExpiration", "JMSXGroupFirstForConsumer", "JMSXUserID", "JMSXProducerTXID"})
"""Headers for which the codec decodes each message."""


class Selecting:
    """A JMS selector as a condition. A message that does not decode does not match."""

    names = frozenset({"properties"})
    """What it decodes are not columns of the view; this one says that it reads MSG."""

    def __init__(self, text: str) -> None:
        self._selector = Selector(text)
        self._attributes: dict[str, Callable[[Rows], pa.Array]] = {}
        for name in self._selector.names & _HEADERS.keys():
            self._attributes |= _HEADERS[name]
        self._properties = sorted(self._selector.names - _HEADERS.keys())
        self._by_codec = bool(self._selector.names & _WHOLE)

    def clause(self, tables: Tables) -> ColumnElement[bool] | None:  # noqa: ARG002
        """Nothing: what a selector is about is in MSG."""
        return None

    def mask(self, rows: Rows) -> pa.Array:
        if self._by_codec:
            return pa.array([self._matches(blob) for blob in rows.stored["msg"].to_pylist()], pa.bool_())
        properties, decodes = values_of(rows.batch, self._properties)
        columns = [*(make(rows).to_pylist() for make in self._attributes.values()), *properties]
        if not columns:
            return pa.array(decodes & self._holds(()))
        # Few values are those of many messages; of different types, equal ones may mean something else.
        repeated = all(_is_exact({*map(type, column)} - {type(None)}) for column in columns)
        known: dict[tuple[Value, ...], bool] = {}
        found = []
        for decoded, values in zip(decodes.tolist(), zip(*columns, strict=True), strict=True):
            holds = known.get(values) if repeated else None
            if holds is None:
                holds = decoded and self._holds(values)
                if repeated and decoded:
                    known[values] = holds
            found.append(holds)
        return pa.array(np.array(found, bool) & decodes)

    def _holds(self, values: tuple[Value, ...]) -> bool:
        """Whether a message with these attributes and properties matches."""
        count = len(self._attributes)
        properties = dict(zip(self._properties, values[count:], strict=True))
        attributes = zip(self._attributes, values[:count], strict=True)
        message: Any = SimpleNamespace(**dict(attributes), properties=properties)
        return self._selector.matches(message)

    def _matches(self, blob: bytes | None) -> bool:
        try:
            return self._selector.matches(decode(blob))
        except CorruptMessage:
            return False


def _is_exact(types: set[type]) -> bool:
    """Whether values of these types that are equal are the same; those of two types may not be."""
    return len(types) <= 1 and types <= {int, bool, str, Byte, Short, Long, Char}


def values_of(batch: Batch, names: Sequence[str]) -> tuple[list[list[Value]], Any]:
    """The values of these properties, None where one is absent, and a mask of the rows that decode."""
    decodes = batch.known.copy()
    decodes[[*batch.others]] = True
    values: list[list[Value]] = [[None] * len(batch) for _ in names]
    if not names:
        return values, decodes
    envelopes = batch.envelopes
    entries = Entries(envelopes.data, envelopes.properties, batch.known)
    for name, column in zip(names, values, strict=True):
        places = entries.named(encode_utf(name))
        # In ascending order: of two entries with one name the codec keeps the last.
        for row, value in zip(entries.row[places].tolist(), entries.values(places), strict=True):
            column[row] = value
    for row in np.flatnonzero(~entries.walked).tolist():
        found = properties_of(batch, row)
        decodes[row] &= found is not None
        for name, column in zip(names, values, strict=True):
            column[row] = (found or NO_PROPERTIES).get(name)
    return values, decodes

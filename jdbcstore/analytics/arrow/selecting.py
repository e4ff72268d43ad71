"""JMS selectors over Arrow columns: only the headers and properties that a selector names are decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sqlalchemy import ColumnElement

from jdbcstore.analytics.arrow.table import ViewRows
from jdbcstore.analytics.batch import MessageBatch
from jdbcstore.analytics.columns import COLUMNS
from jdbcstore.analytics.properties import Entries, properties_of
from jdbcstore.database.tables import Tables
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import NO_PROPERTIES
from jdbcstore.message.openwire import decode
from jdbcstore.message.openwire.encoder import encode_utf
from jdbcstore.message.selector import Selector
from jdbcstore.message.values import Value

_DECODERS = {column.name: column.decode for column in COLUMNS}


def _decoded(name: str) -> Callable[[ViewRows], pa.Array]:
    return lambda rows: rows.batch.column(_DECODERS[name])


def _destination(rows: ViewRows) -> pa.Array:
    """Return the original destination, or else the message's own."""
    batch = rows.batch
    return batch.names(batch.envelopes.destination, lambda message: message.destination)


# By JMS header: the attributes of a message that the selector reads, and the columns that have them.
_HEADERS: dict[str, dict[str, Callable[[ViewRows], pa.Array]]] = {
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
    """No column of the view: the selector decodes MSG itself."""

    def __init__(self, text: str) -> None:
        self._selector = Selector(text)
        self._attributes: dict[str, Callable[[ViewRows], pa.Array]] = {}
        for name in self._selector.names & _HEADERS.keys():
            self._attributes |= _HEADERS[name]
        self._properties = sorted(self._selector.names - _HEADERS.keys())
        self._by_codec = bool(self._selector.names & _WHOLE)

    def clause(self, tables: Tables) -> ColumnElement[bool] | None:  # noqa: ARG002
        """Return None: a selector is evaluated on MSG."""
        return None

    def mask(self, rows: ViewRows) -> pa.Array:
        if self._by_codec:
            return pa.array([self._matches(blob) for blob in rows.stored["msg"].to_pylist()], pa.bool_())
        properties, decodes = values_of(rows.batch, self._properties)
        columns = [*(_encoded(make(rows)) for make in self._attributes.values()), *properties]
        if not columns:
            return pa.array(decodes & self._holds(()))
        # Few values are those of many messages. A row that does not decode has values of no message.
        places = np.flatnonzero(decodes)
        codes = columns[0].codes[places]
        for column in columns[1:]:
            codes = codes * len(column.values) + column.codes[places]
            codes = np.unique(codes, return_inverse=True)[1]
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        some = places[first]
        values = ([column.values[code] for code in column.codes[some].tolist()] for column in columns)
        holds = [self._holds(each) for each in zip(*values, strict=True)]
        mask = np.zeros(len(rows), bool)
        mask[places] = np.array(holds, bool)[codes]
        return pa.array(mask)

    def _holds(self, values: tuple[Value, ...]) -> bool:
        """Return whether a message with these attributes and properties matches."""
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


class Encoded(NamedTuple):
    """A column of few values: the number of each row's value, and the values; the first of them is None."""

    codes: Any
    values: list[Value]


def _encoded(column: pa.Array) -> Encoded:
    encoded = column.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64) + 1
    return Encoded(codes, [None, *encoded.dictionary.to_pylist()])


def values_of(batch: MessageBatch, names: Sequence[str]) -> tuple[list[Encoded], Any]:
    """Return the values of these properties, None where one is absent, and a mask of the rows that decode."""
    decodes = batch.known.copy()
    decodes[[*batch.others]] = True
    columns = [Encoded(np.zeros(len(batch), np.int64), [None]) for _ in names]
    if not names:
        return columns, decodes
    envelopes = batch.envelopes
    entries = Entries(envelopes.data, envelopes.properties, batch.known)
    for name, column in zip(names, columns, strict=True):
        places = entries.named(encode_utf(name))
        codes, values = entries.values(places)
        # In ascending order: of two entries with one name the codec keeps the last.
        column.codes[entries.row[places]] = codes + len(column.values)
        column.values.extend(values)
    for row in np.flatnonzero(~entries.walked).tolist():
        properties = properties_of(batch, row)
        decodes[row] &= properties is not None
        for name, column in zip(names, columns, strict=True):
            column.codes[row] = len(column.values)
            column.values.append((properties or NO_PROPERTIES).get(name))
    return columns, decodes

"""A batch of MSG columns as Arrow columns, decoded as far as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.envelope import Envelopes, Names, Producer, Spans, pieces
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import Body, BodyType, Message
from jdbcstore.message.openwire import decode
from jdbcstore.message.openwire._decoder_cy import make_destination
from jdbcstore.message.openwire.content import decode_body, decode_utf
from jdbcstore.message.openwire.wire_format import BODY_TYPES, Malformed


class MessageBatch:
    """Rows of messages, decoded column by column.

    Rows that :class:`Envelopes` does not know are in ``others``, decoded by the codec. A value that cannot be
    decoded is null, and ``problems`` has the reason by row.
    """

    def __init__(self, blobs: pa.BinaryArray) -> None:
        self.blobs = blobs
        self.envelopes = Envelopes(blobs)
        self.known = self.envelopes.known
        self.others: dict[int, Message] = {}
        self.problems: dict[int, str] = {}
        self._bytes = memoryview(self.envelopes.data)
        self._columns: dict[Callable[[MessageBatch], pa.Array], pa.Array] = {}
        for row in np.flatnonzero(~self.known).tolist():
            try:
                self.others[row] = decode(blobs[row].as_py())
            except CorruptMessage as error:
                self.problems[row] = error.reason

    def __len__(self) -> int:
        return len(self.blobs)

    def column(self, decode: Callable[[MessageBatch], pa.Array]) -> pa.Array:
        """Return the column that this decoder makes of the batch; computed once."""
        if decode not in self._columns:
            self._columns[decode] = decode(self)
        return self._columns[decode]

    def piece(self, spans: Spans, row: int) -> bytes | None:
        """Return the bytes of one row's span."""
        if not spans.present[row]:
            return None
        start = int(spans.start[row])
        return bytes(self._bytes[start : start + int(spans.size[row])])

    def pieces(self, spans: Spans, rows: Any) -> pa.Array:
        """Return the bytes of these rows' spans; null where the mask ``rows`` is false."""
        return pieces(self.envelopes.data, spans.start, spans.size, rows)

    def texts(self, spans: Spans, rows: Any) -> pa.Array:
        """Return the bytes of these rows' spans as strings; a row whose bytes are not a string is null and
        noted as a problem."""
        raw = self.pieces(spans, rows)
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:  # NUL and astral characters, which Java encodes differently; or damage
            return pa.array(
                [
                    None if piece is None else self._text(row, piece)
                    for row, piece in enumerate(raw.to_pylist())
                ],
                pa.string(),
            )

    def _text(self, row: int, raw: bytes) -> str | None:
        try:
            return for_spark(decode_utf(raw))
        except Malformed as error:
            self.problem(row, error)
            return None

    def problem(self, row: int, error: Malformed | CorruptMessage) -> None:
        """Record why a row's value is null; the first reason is kept."""
        reason = error.reason if isinstance(error, CorruptMessage) else str(error)
        self.problems.setdefault(row, reason)

    def patched(self, column: pa.Array, value: Callable[[Message], Any]) -> pa.Array:
        """Return the column of the known rows, completed with this value of the other rows."""
        if self.known.all():
            return column
        rows = np.flatnonzero(~self.known).tolist()
        values = [value(self.others[row]) if row in self.others else None for row in rows]
        return pc.replace_with_mask(column, pa.array(~self.known), pa.array(values, column.type))

    def optional_text(self, spans: Spans, value: Callable[[Message], str | None]) -> pa.Array:
        rows = self.known & spans.present
        column = self.texts(spans, rows) if rows.any() else pa.nulls(len(self), pa.string())
        return self.patched(column, lambda message: for_spark(value(message)))

    def names(self, names: Names, value: Callable[[Message], Any]) -> pa.Array:
        """Return qualified names of destinations."""
        rows = self.known & names.name.present
        if not rows.any():
            return self.patched(pa.nulls(len(self), pa.string()), lambda m: text_of(value(m)))
        column = pa.nulls(len(self), pa.string())
        for number in np.unique(names.number[rows]).tolist():
            # Few destinations have many messages.
            encoded = self.pieces(names.name, rows & (names.number == number)).dictionary_encode()
            read = [_qualified_name(number, piece) for piece in encoded.dictionary.to_pylist()]
            for place, name in enumerate(read):
                if isinstance(name, Malformed):
                    self._problems_at(pc.equal(encoded.indices, place), name)
            texts = pa.array([None if isinstance(name, Malformed) else name for name in read], pa.string())
            column = pc.coalesce(column, texts.take(encoded.indices))
        return self.patched(column, lambda message: text_of(value(message)))

    def _problems_at(self, rows: pa.Array, error: Malformed) -> None:
        for row in pc.indices_nonzero(rows).to_pylist():
            self.problem(row, error)

    def producers(self, producer: Producer, value: Callable[[Message], Any]) -> pa.Array:
        rows = self.known & producer.connection.present
        connections = self.texts(producer.connection, rows)
        numbers = (pa.array(each).cast(pa.string()) for each in (producer.session, producer.value))
        column = pc.binary_join_element_wise(connections, *numbers, ":")
        return self.patched(column, lambda message: text_of(value(message)))

    def bodies(self, kinds: Iterable[BodyType], rows: Any) -> Iterator[tuple[int, Body]]:
        """Yield the row and body of each of these rows whose message is of one of these types."""
        wanted = frozenset(kinds)
        envelopes = self.envelopes
        for row in np.flatnonzero(rows).tolist():
            try:
                if row in self.others:
                    message = self.others[row]
                    if message.body_type in wanted:
                        yield row, message.body
                elif self.known[row] and (kind := BODY_TYPES[int(envelopes.kind[row])]) in wanted:
                    content = self.piece(envelopes.content, row)
                    yield row, decode_body(content, kind, bool(envelopes.compressed[row]))
            except (Malformed, CorruptMessage) as error:
                self.problem(row, error)


def for_spark(text: str | None) -> str | None:
    """Replace each lone surrogate, which UTF-8 cannot encode, by U+FFFD."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


def text_of(value: object) -> str | None:
    return None if value is None else for_spark(str(value))


def _qualified_name(number: int, raw: bytes) -> str | Malformed:
    try:
        return make_destination(number, decode_utf(raw)).qualified_name
    except Malformed as error:
        return error

"""Consecutive acknowledgements of one message each, which are alike."""

from __future__ import annotations

from struct import Struct
from typing import Any

from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled

_read_two = Struct(">qq").unpack_from


def acknowledged(
    data: bytes, offset: int, frame: bytes, first_at: int, last_at: int, producer_id: Any, pending: Any
) -> tuple[dict[int, Any], int]:
    """Return the deliveries that the acknowledgements from an offset on cover, and the offset of their end.

    Each must be like ``frame``, which covers one message: only the command id, and the two numbers of its
    message at ``last_at`` (repeated at ``first_at``), may differ; the message is from ``producer_id``.
    ``pending`` maps the second number to the delivery and the id of the message; the acknowledgements end at
    the first message that it does not have.
    """
    found: dict[int, Any] = {}
    at: cython.Py_ssize_t = offset
    first: cython.Py_ssize_t = first_at
    last: cython.Py_ssize_t = last_at
    size: cython.Py_ssize_t = len(frame)
    is_twice: cython.bint = first != last
    begin, names, between, rest = frame[:5], frame[9:first], frame[first + 16 : last], frame[last + 16 :]
    while data.startswith(begin, at) and data.startswith(names, at + 9):
        if not data.startswith(rest, at + last + 16):
            break
        if is_twice and not (
            data.startswith(between, at + first + 16)
            and data.startswith(data[at + last : at + last + 16], at + first)
        ):
            break
        sequence, number = _read_two(data, at + last)
        dispatched = pending.get(number)
        if dispatched is None:
            break
        delivery, message_id, _ = dispatched
        if (
            message_id.producer_sequence != sequence
            or message_id.text_view is not None
            or not (message_id.producer_id is producer_id or message_id.producer_id == producer_id)
        ):
            break
        found[number] = delivery
        at += size
    return found, at


use_compiled(globals())

"""The bodies of messages: which Python value is which kind of JMS message."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from jdbcstore.errors import InvalidMessage
from jdbcstore.message.values import Value, checked, checked_map


class BodyType(StrEnum):
    """The kinds of JMS message."""

    MESSAGE = "message"
    TEXT = "text"
    BYTES = "bytes"
    MAP = "map"
    STREAM = "stream"
    OBJECT = "object"
    BLOB = "blob"


Body: TypeAlias = str | bytes | Mapping[str, Value] | tuple[Value, ...] | None
"""A message's body as it is read."""

AnyBody: TypeAlias = Body | bytearray | memoryview | Mapping[str, Any] | list[Any] | tuple[Any, ...]
"""A message's body as it may be given."""

NO_PROPERTIES: Mapping[str, Value] = MappingProxyType({})

_KINDS: dict[type, BodyType] = {
    type(None): BodyType.MESSAGE,
    str: BodyType.TEXT,
    bytes: BodyType.BYTES,
    bytearray: BodyType.BYTES,
    memoryview: BodyType.BYTES,
    dict: BodyType.MAP,
    list: BodyType.STREAM,
    tuple: BodyType.STREAM,
}


_AS_IT_IS: dict[type, BodyType] = {str: BodyType.TEXT, bytes: BodyType.BYTES}
"""Bodies that nobody can change."""


def type_of(body: object) -> BodyType:
    """The kind of message that this body makes."""
    kind = _KINDS.get(type(body))
    if kind is not None:
        return kind
    if isinstance(body, Mapping):
        return BodyType.MAP
    for base, kind in _KINDS.items():
        if isinstance(body, base):
            return kind
    raise InvalidMessage(f"a {type(body).__name__} is no body; use a str, bytes, a mapping, a list, or None")


def checked_body(body: object, kind: BodyType) -> Body:
    """The body, copied where it could change, as a message of this kind keeps it.

    :raises InvalidMessage: it is not a body of this kind, or holds what cannot be stored
    """
    cls = type(body)
    if _AS_IT_IS.get(cls) is kind:
        return body  # type: ignore[return-value]
    if body is None:
        return _EMPTY.get(kind)
    fits = type_of(body)
    if fits is BodyType.BYTES and kind is BodyType.OBJECT:
        fits = kind
    if fits is not kind:
        raise InvalidMessage(f"a {cls.__name__} is no body of a {kind} message")
    if isinstance(body, str):
        return str.__str__(body)
    if isinstance(body, Mapping):
        return MappingProxyType(checked_map(body))
    if isinstance(body, list | tuple):
        return tuple(_checked_element(element) for element in body)
    return bytes(body)  # type: ignore[call-overload, no-any-return]


_EMPTY: dict[BodyType, Body] = {BodyType.BYTES: b"", BodyType.MAP: NO_PROPERTIES, BodyType.STREAM: ()}


def _checked_element(element: object) -> Value:
    value = checked(element)
    if isinstance(value, dict | list):
        raise InvalidMessage("a stream holds no maps and lists; use a map message")
    return value


def checked_properties(properties: Mapping[str, object] | None) -> Mapping[str, Value]:
    """A read-only copy of the properties; :class:`InvalidMessage` if they cannot be stored."""
    if not properties:
        return NO_PROPERTIES
    if not isinstance(properties, Mapping):
        raise InvalidMessage(f"properties are a mapping, not a {type(properties).__name__}")
    return MappingProxyType(checked_map(properties))

"""Destinations: queues and topics, with ActiveMQ's qualified names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from jdbcstore.errors import InvalidDestination

_BLANK = "".join(map(chr, range(1, 33)))


class DestinationKind(StrEnum):
    """The kind of a destination; the value is the scheme of its qualified name.

    ``QUEUE``, ``TOPIC``, and ``TEMPORARY_QUEUE`` and ``TEMPORARY_TOPIC``, which last as long as a connection.
    """

    QUEUE = "queue"
    TOPIC = "topic"
    TEMPORARY_QUEUE = "temp-queue"
    TEMPORARY_TOPIC = "temp-topic"


_SCHEMES = {f"{kind.value}://": kind for kind in DestinationKind}
TOPICS = tuple(f"{kind.value}://" for kind in (DestinationKind.TOPIC, DestinationKind.TEMPORARY_TOPIC))
"""The prefixes of the qualified names of topics."""
_STOMP = {"/queue/": DestinationKind.QUEUE, "/topic/": DestinationKind.TOPIC}
_LOOKS_QUALIFIED = re.compile(
    r"(?:/(?:remote-)?(?P<stomp>(?:temp-)?(?:queue|topic))/"
    r"|(?P<scheme>[a-z][a-z0-9+-]*)://"
    r"|(?P<prefix>(?:temp-)?(?:queue|topic)):)",
    re.IGNORECASE,
)
"""Prefixes with a meaning in other systems, which would silently become part of the name here."""
_TOPICS = (DestinationKind.TOPIC, DestinationKind.TEMPORARY_TOPIC)
_TEMPORARY = (DestinationKind.TEMPORARY_QUEUE, DestinationKind.TEMPORARY_TOPIC)


@dataclass(frozen=True, slots=True, eq=False)
class Destination:
    """A queue or topic, or a composite of several, whose ``name`` is a list with commas.

    ``qualified_name`` is the content of the CONTAINER column: ``queue://ORDERS``; of a composite it is the
    bare list, as in ActiveMQ. The constructor takes ``kind`` and ``name`` as they are; :meth:`parse`,
    :meth:`queue` and :meth:`topic` also remove blanks around the name and options after a ``?``.

    :raises InvalidDestination: the name is empty, or the tables cannot hold it (a NUL, an unpaired surrogate)
    """

    kind: DestinationKind
    name: str
    qualified_name: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)
    _openwire: bytes | None = field(init=False, repr=False, default=None)  # the codec's memo

    def __post_init__(self) -> None:
        _check_name(self.name)
        kind, name = DestinationKind(self.kind), self.name
        qualified_name = name if "," in name else f"{kind.value}://{name}"
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "qualified_name", qualified_name)
        object.__setattr__(self, "_hash", hash((kind.value, name)))
        if "," in name and not self.members:
            raise InvalidDestination(f"the composite destination {name[:200]!r} has no members; name them")

    @classmethod
    def queue(cls, name: str) -> Destination:
        """Make the queue of this name."""
        return cls(DestinationKind.QUEUE, clean_name(name))

    @classmethod
    def topic(cls, name: str) -> Destination:
        """Make the topic of this name."""
        return cls(DestinationKind.TOPIC, clean_name(name))

    @classmethod
    def named(cls, text: str, default: DestinationKind = DestinationKind.QUEUE) -> Destination:
        """Make the destination for a name from a user or client: a qualified name, STOMP's ``/queue/ORDERS``
        or ``/topic/NEWS``, or a bare name, whose kind is ``default``.

        :raises InvalidDestination: it is not a name, or a mistyped qualified name: ``topic:NEWS``,
            ``QUEUE://ORDERS``
        """
        name = clean_name(text)
        if "," in name:
            parts = (part.strip(_BLANK) for part in name.split(","))
            first, *others = [cls.named(part, default) for part in parts if part] or [cls(default, name)]
            return cls(first.kind, ",".join((first.name, *map(str, others)))) if others else first
        for prefix, kind in _STOMP.items():
            if name.startswith(prefix):
                return cls(kind, clean_name(name[len(prefix) :]))
        looks = _LOOKS_QUALIFIED.match(name)
        if looks is not None and looks.group() not in _SCHEMES:
            raise InvalidDestination(_advice(name, looks))
        return cls.parse(name, default)

    @classmethod
    def parse(cls, text: str, default: DestinationKind = DestinationKind.QUEUE) -> Destination:
        """Parse a qualified name, as tables have it, or a bare one, whose kind is ``default``.

        A mistyped qualified name is accepted as a bare one, as in ActiveMQ: a row can have it.
        """
        name = clean_name(text)
        for scheme, kind in _SCHEMES.items():
            if name.startswith(scheme):
                return cls(kind, clean_name(name[len(scheme) :]))
        return cls(default, name)

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic, temporary or not; else it is a queue."""
        return self.kind in _TOPICS

    @property
    def is_temporary(self) -> bool:
        """Whether it is a temporary queue or topic, which is deleted with its connection."""
        return self.kind in _TEMPORARY

    @property
    def is_composite(self) -> bool:
        """Whether the name is a list of several destinations, the :attr:`members`."""
        return "," in self.name

    @property
    def members(self) -> tuple[Destination, ...]:
        """The distinct destinations of a composite; bare members have the composite's kind."""
        if not self.is_composite:
            return (self,)
        parts = (part.strip(_BLANK) for part in self.name.split(","))
        return tuple(dict.fromkeys(Destination.parse(part, self.kind) for part in parts if part))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Destination):
            return NotImplemented
        return self.name == other.name and self.kind is other.kind

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.qualified_name


def clean_name(text: str) -> str:
    """Remove options and surrounding blanks from a name, as ActiveMQ does."""
    if not isinstance(text, str):
        raise InvalidDestination(f"the name of a destination must be a str, not {type(text).__name__}")
    return text.partition("?")[0].strip(_BLANK)


def _advice(name: str, looks: re.Match[str]) -> str:
    name = name[:200]
    kind = (looks["stomp"] or looks["scheme"] or looks["prefix"]).lower()
    rest = name[looks.end() :].lstrip("/") or "NAME"
    exact = f"for a queue of this very name, queue://{name}"
    if f"{kind}://" in _SCHEMES:
        return f"{name!r} is not a valid destination: write {kind}://{rest}, or {exact}"
    return f"{name!r} has an unknown prefix: write queue://{rest} or topic://{rest}, or {exact}"


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise InvalidDestination(f"the name of a destination must be a str, not {type(name).__name__}")
    if not name:
        raise InvalidDestination("a destination needs a name; for example queue://ORDERS")
    if "\0" in name:
        raise InvalidDestination(f"the destination name {name[:200]!r} has a NUL character; remove it")
    if "?" in name or name[0] in _BLANK or name[-1] in _BLANK:
        raise InvalidDestination(
            f"the destination name {name[:200]!r} has blanks around it or options after a '?';"
            " use Destination.parse, which removes them"
        )
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidDestination(
                f"the destination name {name[:200]!r} has an unpaired surrogate; remove it"
            ) from None

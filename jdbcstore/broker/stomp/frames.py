"""STOMP frames, their limits, and their encoding, in versions 1.0, 1.1 and 1.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from jdbcstore.errors import ProtocolError


class Version(StrEnum):
    """The versions of the protocol, which compare in their order."""

    V1_0 = "1.0"
    V1_1 = "1.1"
    V1_2 = "1.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLimits:
    """The maximum size of a frame and of its parts, in bytes."""

    head: int = 256 * 1024
    """The command and all headers."""
    line: int = 10 * 1024
    """The command, or one header."""
    headers: int = 1000
    """The number of headers."""
    body: int = 100 * 1024 * 1024
    large: int = 0
    """From this size on, the body of a SEND is read part by part, if it has a content-length and is still
    arriving; 0 means never."""


@dataclass(slots=True)
class Frame:
    """A command, its headers, its body. The reader's caller owns the headers, and may change them."""

    command: str
    headers: dict[str, str]
    body: bytes = b""

    def __repr__(self) -> str:  # headers may hold a password
        return f"<Frame {self.command[:20]!r} with {len(self.headers)} headers and {len(self.body)} bytes>"


@dataclass(slots=True, repr=False)
class LargeFrame(Frame):
    """A SEND whose body follows part by part, with its size."""

    length: int = 0


class BodyPart(Frame):
    """The next bytes of the body of a :class:`LargeFrame`; empty after the last."""

    __slots__ = ()


WITH_BODY = frozenset(("SEND", "MESSAGE", "ERROR"))
"""The commands whose content-length is used, as in ActiveMQ, because some clients copy the headers of a
message, including content-length, into its ACK."""


def escape(text: str, version: Version) -> str:
    """Escape a header's name or value.

    Characters that a version cannot express become blanks.
    """
    if version is Version.V1_0:
        return text.replace("\n", " ").replace("\r", " ")
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")
    return text.replace("\r", "\\r" if version is Version.V1_2 else " ")


def encode(command: str, headers: Iterable[tuple[str, str]], version: Version, body: bytes = b"") -> bytes:
    """Return a frame as bytes.

    Headers of CONNECTED are not escaped, because the client does not know the version yet.
    """
    if command == "CONNECTED":
        version = Version.V1_0
    lines = "".join([f"{escape(name, version)}:{escape(value, version)}\n" for name, value in headers])
    return b"".join((encode_head(f"{command}\n{lines}\n"), body, b"\0"))


def encode_head(text: str) -> bytes:
    """Return the head of a frame in UTF-8; a NUL, or half a surrogate pair, becomes a ``?``."""
    if "\0" in text:
        text = text.replace("\0", "?")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace")


def required(headers: Mapping[str, str], name: str, command: str) -> str:
    """Return a required header of a command.

    :raises ProtocolError: it is missing or empty
    """
    value = headers.get(name)
    if not value:
        raise ProtocolError(f"{command} needs the header {name}; add it")
    return value


def whole_number(name: str, text: str, at_least: int = -(2**63), at_most: int = 2**63 - 1) -> int:
    """Return the value of a numeric header.

    :raises ProtocolError: it is not a whole number, or out of bounds
    """
    text = text.strip()
    try:
        if len(text) <= 20 and text.isascii() and at_least <= (number := int(text)) <= at_most:
            return number
    except ValueError:
        pass
    raise ProtocolError(
        f"the header {name} is {text[:20]!r}; it must be a whole number from {at_least} to {at_most}"
    )

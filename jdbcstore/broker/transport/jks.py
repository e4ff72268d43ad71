"""Key stores of Java's old type JKS: certificates, and private keys with Sun's own protection.

A keyed SHA-1 covers the whole file, so a wrong password or damage is noticed before anything is used. The
protection of keys is weak by today's standards, so the file itself must be kept secret.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct
from typing import NamedTuple

MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _CERTIFICATE = 1, 2
_VERSIONS = (1, 2)
_MIXED_IN = b"Mighty Aphrodite"
_SHA1 = 20
_PROTECTED = bytes.fromhex("060a2b060104012a02110101")
"""The identifier of the protection of keys, in DER."""
_u16, _i32 = Struct(">H"), Struct(">i")
_TOO_SHORT = "it ends too early"


class JksEntries(NamedTuple):
    """The content of a key store."""

    key: bytes | None
    """The first private key, PKCS #8 in DER, or None."""
    chain: tuple[bytes, ...]
    """Its certificates in DER, its own first."""
    trusted: tuple[bytes, ...]
    """The certificates without a key, in DER."""


def read_jks(data: bytes, password: str | None) -> JksEntries:
    """Read a key store, whose password is also the password of its key.

    :param password: with None, nothing is verified, and a key cannot be read
    :raises ValueError: it is not a key store, the password is wrong, or it is damaged
    """
    secret = (password or "").encode("utf-16-be")
    if password is not None:
        digest = hashlib.sha1(secret + _MIXED_IN + data[:-_SHA1], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, data[-_SHA1:]):
            raise ValueError("the password is wrong, or the file is damaged")
    reader = _Reader(data[:-_SHA1])
    if reader.take(4) != MAGIC or (version := reader.number()) not in _VERSIONS:
        raise ValueError("it is not a key store of the type JKS")
    key: bytes | None = None
    chain: tuple[bytes, ...] = ()
    trusted = []
    for _ in range(reader.number()):
        kind = reader.number()
        reader.string()  # the alias
        reader.take(8)  # the time when it was added
        if kind == _KEY:
            protected = reader.block()
            certificates = tuple(reader.certificate(version) for _ in range(reader.number()))
            if key is None and password is not None:
                key, chain = _unprotected(protected, secret), certificates
        elif kind == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        else:
            raise ValueError(f"it has an entry of an unknown kind, {kind}")
    return JksEntries(key, chain, tuple(trusted))


class _Reader:
    """A reader of the bytes of a key store."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if size < 0 or len(taken) < size:
            raise ValueError(_TOO_SHORT)
        self._at += size
        return taken

    def number(self) -> int:
        return int(_i32.unpack(self.take(4))[0])

    def string(self) -> bytes:
        return self.take(_u16.unpack(self.take(2))[0])

    def block(self) -> bytes:
        return self.take(self.number())

    def certificate(self, version: int) -> bytes:
        if version > 1 and (kind := self.string()) != b"X.509":
            raise ValueError(f"it has a certificate of the type {kind!r}")
        return self.block()


def _unprotected(info: bytes, secret: bytes) -> bytes:
    """Return the key in an EncryptedPrivateKeyInfo."""
    outer, _ = _inside(info, 0x30)
    algorithm, rest = _inside(outer, 0x30)
    if not algorithm.startswith(_PROTECTED):
        raise ValueError("its key does not have the protection of the type JKS")
    protected, _ = _inside(rest, 0x04)
    state, mixed, check = protected[:_SHA1], protected[_SHA1:-_SHA1], protected[-_SHA1:]
    stream = bytearray()
    while len(stream) < len(mixed):
        state = hashlib.sha1(secret + state, usedforsecurity=False).digest()
        stream += state
    key = bytes(byte ^ other for byte, other in zip(mixed, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise ValueError("its key has another password than the key store")
    return key


def _inside(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of a value in DER, and the following bytes."""
    if len(data) < 2 or data[0] != tag:
        raise ValueError("its key is damaged")
    size, at = data[1], 2
    if size & 0x80:
        at += size & 0x7F
        size = int.from_bytes(data[2:at], "big")
    if len(data) < at + size:
        raise ValueError(_TOO_SHORT)
    return data[at : at + size], data[at + size :]

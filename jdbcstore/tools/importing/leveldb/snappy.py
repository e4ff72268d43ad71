"""Snappy: LevelDB's blocks are compressed with it, and messages with ``logCompression="snappy"``."""

from __future__ import annotations

from jdbcstore.errors import needing
from jdbcstore.tools.importing.protobuf import MalformedLog


def decompress(data: bytes) -> bytes:
    """Return the decompressed bytes.

    :raises MalformedLog: it is damaged
    :raises ConfigurationError: the library that can do it is not installed
    """
    with needing("these files are compressed with Snappy, and cramjam is not installed", "leveldb"):
        from cramjam import snappy
    try:
        return bytes(snappy.decompress_raw(data))
    except Exception as error:  # cramjam's own has no better base
        raise MalformedLog(f"it cannot be decompressed: {error}", 0) from error

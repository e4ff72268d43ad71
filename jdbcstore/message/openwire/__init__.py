"""OpenWire, the encoding of ActiveMQ's MSG column."""

from jdbcstore.message.openwire.decoder import decode, headers_of
from jdbcstore.message.openwire.encoder import (
    encode,
    encode_for_store,
    encode_for_wire,
    set_broker_sequence,
)
from jdbcstore.message.openwire.reference import is_reference

__all__ = [
    "decode",
    "encode",
    "encode_for_store",
    "encode_for_wire",
    "headers_of",
    "is_reference",
    "set_broker_sequence",
]

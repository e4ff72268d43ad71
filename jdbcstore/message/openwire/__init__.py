"""OpenWire, the encoding of ActiveMQ's MSG column."""

from jdbcstore.message.openwire.decoder import decode
from jdbcstore.message.openwire.encoder import encode, encode_for_store, encode_for_wire, set_broker_sequence
from jdbcstore.message.openwire.reference import (
    REFERENCE_SIZE,
    REFERENCE_START,
    SEQUENCE_AT,
    BodyReference,
    is_reference,
    read_reference,
    refer,
)

__all__ = [
    "REFERENCE_SIZE",
    "REFERENCE_START",
    "SEQUENCE_AT",
    "BodyReference",
    "decode",
    "encode",
    "encode_for_store",
    "encode_for_wire",
    "is_reference",
    "read_reference",
    "refer",
    "set_broker_sequence",
]

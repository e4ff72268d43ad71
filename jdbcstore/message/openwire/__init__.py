"""OpenWire, the encoding of ActiveMQ's MSG column."""

from jdbcstore.message.openwire.decoder import decode
from jdbcstore.message.openwire.encoder import (
    encode,
    encode_for_store,
    encode_for_wire,
    parts_with_broker_out_time,
    set_broker_in_time,
    set_broker_sequence,
)
from jdbcstore.message.openwire.reference import is_reference

__all__ = [
    "decode",
    "encode",
    "encode_for_store",
    "encode_for_wire",
    "is_reference",
    "parts_with_broker_out_time",
    "set_broker_in_time",
    "set_broker_sequence",
]

"""OpenWire, the encoding of ActiveMQ's MSG column: loose, uncached, with a size before it."""

from jdbcstore.openwire.decoder import decode
from jdbcstore.openwire.encoder import encode, encode_for_store, set_broker_sequence

__all__ = ["decode", "encode", "encode_for_store", "set_broker_sequence"]

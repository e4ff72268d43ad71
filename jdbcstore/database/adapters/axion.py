"""Axion through its JDBC driver; ActiveMQ itself dropped it in 6.2."""

from __future__ import annotations

from typing import ClassVar

from jdbcstore.database.adapters.bridged import BRIDGE, BridgedAdapter


class AxionAdapter(BridgedAdapter):
    """A database inside one program; nothing of it is tried."""

    name = "axion"
    drivers: ClassVar = {"jdbc+any": BRIDGE}
    jdbc_subprotocols = ("axiondb",)
    quotes_names = False
    touches_to_lock = True
    now_ms = ""

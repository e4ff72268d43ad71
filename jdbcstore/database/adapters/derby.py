"""Derby 10 through its JDBC driver, as a network server or a directory in this process."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import URL

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.bridged import BRIDGE, BridgedAdapter
from jdbcstore.database.adapters.urls import URL_PROPERTY


class DerbyAdapter(BridgedAdapter):
    """ActiveMQ's own default database. BLOB alone is BLOB(2G) here."""

    name = "derby"
    drivers: ClassVar = {"jdbc+derby": BRIDGE}
    jdbc_subprotocols = ("derby",)
    # Seconds: a finer difference overflows. Right where the server runs in UTC.
    now_ms = (
        "CAST({fn TIMESTAMPDIFF(SQL_TSI_SECOND, TIMESTAMP('1970-01-01 00:00:00'), CURRENT_TIMESTAMP)}"
        " AS BIGINT) * 1000"
    )
    failures: ClassVar = {
        "08004": Failure.REFUSED,
        "40XL1": Failure.TRANSIENT,
        **dict.fromkeys(("42X04", "42X05", "42X14"), Failure.NO_TABLE),
        **dict.fromkeys(("XJ015", "XJ040", "XJ004", "58009"), Failure.DISCONNECTED),
        **dict.fromkeys(("XSDF1", "XSDG8", "XSLA4"), Failure.FULL),
    }

    def is_local(self, url: URL) -> bool:
        return not str(url.query.get(URL_PROPERTY, "")).startswith("jdbc:derby://")

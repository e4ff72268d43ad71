"""Databases written in Java, through their JDBC drivers: Derby, H2 and HSQLDB, server or embedded."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import URL

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.generic import BRIDGE, JdbcAdapter
from jdbcstore.database.adapters.urls import URL_PROPERTY


class DerbyAdapter(JdbcAdapter):
    """Derby 10, ActiveMQ's own default database. BLOB means BLOB(2G) here."""

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


class H2Adapter(JdbcAdapter):
    """H2 2. Its BLOB is as large as a message can be."""

    name = "h2"
    drivers: ClassVar = {"jdbc+h2": BRIDGE}
    jdbc_subprotocols = ("h2",)
    write_at_once = "SET WRITE_DELAY 0"
    now_ms = "CAST(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) * 1000 AS BIGINT)"
    size_function = "octet_length"  # LENGTH counts characters of bytes that it takes for UTF-8
    failures: ClassVar = {
        # The connection is broken, the database closed, the file locked by another process.
        **dict.fromkeys((90007, 90020, 90067, 90098, 90121, 90126), Failure.DISCONNECTED),
        **dict.fromkeys((42102, 42104, 42122), Failure.NO_TABLE),
        90131: Failure.TRANSIENT,  # another transaction has changed the row
    }


class HsqldbAdapter(JdbcAdapter):
    """HSQLDB 2. A SELECT does not lock rows here, so an UPDATE that changes nothing does."""

    name = "hsqldb"
    drivers: ClassVar = {"jdbc+hsqldb": BRIDGE}
    jdbc_subprotocols = ("hsqldb",)
    write_at_once = "SET FILES WRITE DELAY FALSE"
    touches_to_lock = True
    now_ms = "UNIX_MILLIS()"
    size_function = "octet_length"
    failures: ClassVar = {
        "42501": Failure.NO_TABLE,  # its text is about rights, but it is raised for absent tables as well
        "40502": Failure.DISCONNECTED,
        **dict.fromkeys((-3401, -3407), Failure.TOO_LARGE),
    }

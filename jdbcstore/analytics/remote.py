"""Sessions of Spark Connect, whose Java is on a server: their detection, and the files they are sent."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jdbcstore.analytics.spark_session import errors_once, packed
from jdbcstore.errors import ConfigurationError, StoreUnavailable, needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT = 15002
"""Spark Connect's own."""
_ANSWER = 10.0
"""Seconds; the client itself would try for many minutes."""


def remote_session(url: str) -> SparkSession:
    """Connect to the Spark Connect server at ``sc://HOST:PORT``. No error shows the URL's parameters.

    :raises ConfigurationError: the URL is not one of these, or the client of Spark Connect is not installed
    :raises StoreUnavailable: no server answers there
    """
    from pyspark.sql import SparkSession

    errors_once()
    host, port = place_of(url)
    try:
        socket.create_connection((host, port), _ANSWER).close()
    except OSError as error:
        raise StoreUnavailable(
            f"no server of Spark Connect answers at {host}:{port} ({error.strerror or error}); start one with"
            " Spark's sbin/start-connect-server.sh"
        ) from error
    with needing("the client of Spark Connect is not installed", "connect"):
        session: SparkSession = SparkSession.builder.remote(url).getOrCreate()
    return session


def place_of(url: str) -> tuple[str, int]:
    """Return the host and port of a server of Spark Connect.

    :raises ConfigurationError: the URL names none
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host = None
    if host is None or parts.scheme != "sc":
        # Without the text, whose parameters may be secret.
        raise ConfigurationError("name a server of Spark Connect by its URL, sc://HOST or sc://HOST:PORT")
    return host, port


def is_remote(spark: Any) -> bool:
    """Return whether this is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


_sent: set[str] = set()
"""Sessions that have the package: a file that was sent cannot be replaced."""


def send(spark: Any) -> None:
    """Send this jdbcstore to the server and its workers, which may have another version, or none."""
    if spark.session_id not in _sent:
        spark.addArtifacts(str(packed()), pyfile=True)
        _sent.add(spark.session_id)

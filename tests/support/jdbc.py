"""Reaching what only a JDBC driver reaches, beside the store."""

from __future__ import annotations

import jpype
from sqlalchemy import URL, Engine, NullPool, QueuePool, create_engine

from jdbcstore.database.adapters.jdbc.jvm import OPTIONS
from jdbcstore.database.adapters.registry import adapter_for
from tests.support import tiers
from tests.support.jvm import QUICK

FORMS = {
    "h2": "jdbc:h2:tcp://{host}:{port}/./{database};DB_CLOSE_DELAY=-1",
    "hsqldb": "jdbc:hsqldb:hsql://{host}:{port}/{database}",
    "derby": "jdbc:derby://{host}:{port}/{database};create=true",
}
"""By SQLAlchemy scheme, as the tests write it for want of another."""


def jdbc_url(address: URL, *, login: bool = True) -> str:
    """The JDBC URL of a database, with user and password in it or without."""
    form = FORMS[address.drivername]
    text = form.format(host=address.host, port=address.port, database=address.database)
    return f"{text};user={address.username};password={address.password}" if login else text


def jdbc_engine(url: str, *, pooled: bool = False) -> Engine:
    """Opens a connection for each use, or keeps them with ``pooled``, in autocommit mode."""
    tiers.starts("java")
    if not jpype.isJVMStarted():
        jpype.startJVM(*OPTIONS, *QUICK, interrupt=False)  # else as the store would
    _, target = adapter_for(url)
    pool = QueuePool if pooled else NullPool
    return create_engine(target, poolclass=pool, isolation_level="AUTOCOMMIT")

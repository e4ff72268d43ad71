"""Engines that imitate others take what those would be sent: its shape, not what it means there."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import pytest
from jpype import JClass

from jdbcstore.database.adapters.jdbc import dbapi
from jdbcstore.database.adapters.jdbc.jvm import driver_for
from jdbcstore.database.adapters.registry import adapter_class
from jdbcstore.errors import ConfigurationError
from tests.unit.database.golden.rendering import definitions, statements


@dataclass(frozen=True)
class Imitation:
    """Another vendor's mode, and what it does not know of it."""

    vendor: str
    url: str
    lacks: tuple[str, ...] = ()
    """Words of a CREATE TABLE that must be taken out."""
    refuses: tuple[str, ...] = ()
    """Statements."""


LENGTHS = ("destination_statistics", "find_messages_of_size", "find_sizes_by_ids")
"""Count bytes with the vendor's own function."""

IMITATIONS = (
    Imitation("oracle", "jdbc:h2:mem:oracle;MODE=Oracle"),
    Imitation("oracle", "jdbc:hsqldb:mem:oracle;sql.syntax_ora=true", refuses=LENGTHS),
    Imitation(
        "mssql",
        "jdbc:h2:mem:mssql;MODE=MSSQLServer",
        lacks=(" COLLATE Latin1_General_100_BIN2", " NONCLUSTERED"),
        refuses=LENGTHS,
    ),
    Imitation("db2", "jdbc:h2:mem:db2;MODE=DB2"),
    Imitation("db2", "jdbc:hsqldb:mem:db2;sql.syntax_db2=true", refuses=LENGTHS),
    # It has DB2's grammar, but for the kind of lock.
    Imitation("db2", "jdbc:derby:memory:db2;create=true", refuses=("find_number_for_update", "hold_number")),
)


@pytest.mark.parametrize("imitation", IMITATIONS, ids=lambda one: f"{one.vendor}-{one.url.split(':')[1]}")
@pytest.mark.slow
@pytest.mark.java
def test_an_imitation_takes_every_statement(imitation: Imitation) -> None:
    adapter = adapter_class(imitation.vendor)()
    try:
        driver_for(imitation.url)
        # Derby would begin a log in whatever directory this is.
        JClass("java.lang.System").setProperty("derby.stream.error.file", os.devnull)
        connection = dbapi.connect(imitation.url, "SA", "")
    except ConfigurationError as missing:
        pytest.skip(str(missing))
    for text in definitions(adapter):
        for word in imitation.lacks:
            text = text.replace(word, "")
        connection.cursor().execute(text)
    refused = []
    for name, sql in statements(adapter).items():
        try:
            connection.java.prepareStatement(re.sub(r":\d+", "?", sql.text))
        except dbapi.Error:
            refused.append(name)
    connection.close()

    assert tuple(refused) == imitation.refuses

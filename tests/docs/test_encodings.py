"""Databases that are not UTF-8: a name is told apart or refused, and never garbled."""

from __future__ import annotations

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.errors import InvalidMessage
from tests.support.backends import Backend
from tests.support.servers import Server

CREATE = {
    "postgresql": "CREATE DATABASE latin OWNER {user} ENCODING LATIN1 LOCALE 'C' TEMPLATE template0",
    "mariadb": "CREATE DATABASE latin CHARACTER SET latin1",
    "mariadb-pyodbc": "CREATE DATABASE latin CHARACTER SET latin1",
    "mysql": "CREATE DATABASE latin CHARACTER SET latin1",
}


@pytest.mark.backends(*CREATE)
def test_a_database_in_latin_1(backend: Backend, server: Server) -> None:
    server.execute_as_administrator(CREATE[backend.id].format(user=server.username))
    url = backend.private_url(server).set(database="latin").render_as_string(hide_password=False)

    with jdbcstore.open(url) as store:
        store.queue("café").add_message(Message("☃"))
        with pytest.raises(InvalidMessage):
            store.queue("☃").add_message(Message("a snowman"))

        assert [message.body for message in store.queue("café").recover()] == ["☃"]
        assert [str(destination) for destination in store.destinations()] == ["queue://café"]

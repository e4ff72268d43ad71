"""Files beside a stream: written, read and removed; and what is left where that was cut off."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from jdbcstore.errors import CorruptMessage, StoreUnavailable
from jdbcstore.journal.stream.aside import StreamAside
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.stores.journaled.refused import Refused
from tests.support.streams import NatsServer, streamed

pytestmark = pytest.mark.servers
CONTENT = random.Random(1).randbytes(300_000)


@pytest.fixture
def server(nats: NatsServer, name: str) -> Iterator[StreamServer]:
    server = StreamServer(streamed(nats.url, name))
    yield server
    server.close()


@pytest.fixture
def aside(server: StreamServer) -> StreamAside:
    return StreamAside(server, "refused")


def messages(server: StreamServer) -> int:
    return int(server.connection.ask(lambda js: js.stream_info(f"OBJ_{server.name}-refused")).state.messages)


def pieces(server: StreamServer) -> str:
    return f"$O.{server.name}-refused.C.>"


def test_they_are_written_read_and_removed(server: StreamServer, aside: StreamAside) -> None:
    assert (aside.names(), aside.read("a")) == ([], None)
    aside.remove("a")
    aside.write("a", b"before")
    aside.write("a", CONTENT)
    aside.write("b", b"b")
    assert sorted(aside.names()) == ["a", "b"]
    assert (aside.read("a"), aside.read("b"), aside.read("c")) == (CONTENT, b"b", None)
    aside.remove("a")
    aside.remove("a")
    assert (aside.names(), aside.read("a"), aside.read("b")) == (["b"], None, b"b")
    aside.remove("b")
    assert (aside.names(), messages(server)) == ([], 0)


def test_one_whose_writing_was_cut_off_is_not_there(server: StreamServer, aside: StreamAside) -> None:
    """The client removes the pieces of an object where the answer to its facts is lost."""
    aside.write("1.message", CONTENT)
    bucket = f"OBJ_{server.name}-refused"
    server.connection.ask(lambda js: js.purge_stream(bucket, subject=pieces(server)))
    assert aside.read("1.message") is None
    assert Refused(aside).every() == []
    aside.write("1.message", b"again")
    assert aside.read("1.message") == b"again"
    server.connection.ask(lambda js: js.purge_stream(bucket, subject=pieces(server)))
    aside.remove("1.message")
    assert aside.names() == []


def test_a_damaged_one_is_reported(server: StreamServer, aside: StreamAside) -> None:
    aside.write("1.message", CONTENT)
    server.connection.ask(lambda js: js.delete_msg(f"OBJ_{server.name}-refused", 2))
    with pytest.raises(CorruptMessage, match=r"1\.message is damaged"):
        Refused(aside).every()


def test_a_list_without_end_is_given_up(
    server: StreamServer, aside: StreamAside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts that cannot be read have the client wait for ever, where they are the last ones."""
    aside.write("1.message", b"a")

    async def spoil(js: Any) -> None:
        await js.publish(f"$O.{server.name}-refused.M.eA==", b"?")

    server.connection.ask(spoil)
    for module in ("aside", "connection"):
        monkeypatch.setattr(f"jdbcstore.journal.stream.{module}.PATIENCE", 0.5)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        aside.names()

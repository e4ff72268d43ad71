"""A journal in a stream: appended, read back, opened again, released; and what an earlier process may not."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import nats as client
import pytest
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, StreamConfig
from nats.js.errors import APIError

from jdbcstore.errors import (
    ConfigurationError,
    CorruptJournal,
    JournalFailed,
    JournalInUse,
    LockLost,
    OutcomeUnknown,
    StoreUnavailable,
)
from jdbcstore.journal.log import Journal
from jdbcstore.journal.stream import connection as connection_module
from jdbcstore.journal.stream import server as server_module
from jdbcstore.journal.stream.health import looked_at
from jdbcstore.journal.stream.pieces import HEAD, PieceHead
from jdbcstore.journal.stream.server import StreamServer, StreamState, _reader
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.stream_health import UNSAFE
from tests.support.elections import Elections
from tests.support.journal.entries import Item, Told, opened
from tests.support.streams import NatsCluster, NatsServer, newer, streamed

pytestmark = pytest.mark.servers


def bodies(journal: Journal, after: int = 0) -> list[bytes]:
    return [record.body for record in journal.log.records(after)]


def append(journal: Journal, told: Told, *added: bytes) -> None:
    count = len(told.written) + len(told.failed) + len(added)
    for body in added:
        journal.append(Item(body))
    told.wait(count)


def ask(url: str, what: Callable[[JetStreamContext], Awaitable[Any]]) -> Any:
    """Do something to the streams of a server, as an administrator may."""

    async def connected() -> Any:
        connection = await client.connect(url)
        try:
            return await what(connection.jetstream())
        finally:
            await connection.close()

    return asyncio.run(connected())


def subject(name: str) -> str:
    return f"jdbcstore.journal.{name}"


def test_what_was_appended_is_read_back_in_order(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told, accept=lambda found: (found.store, 100))
    added = [bytes([index]) * (index * 7) for index in range(100)]
    for index, body in enumerate(added):
        journal.append(Item(body, kind=1 + index % 5, sequences=index % 3), waits=bool(index % 2))
    told.wait(100)

    records = list(journal.log.records(0))
    assert [record.body for record in records] == told.bodies == added
    assert [record.kind for record in records] == [1 + index % 5 for index in range(100)]
    assert [(one.number, one.sequence, one.segment) for one in told.written] == [
        (record.number, record.sequence, record.segment) for record in records
    ]
    assert [one.sequence for one in told.written[:5]] == [100, 100, 101, 103, 103]
    for one in told.written:
        assert journal.log.read(one.segment, one.offset, one.entry.size) == b"".join(one.entry.chunks)
    assert [[record.number for record in journal.log.records(after)] for after in (0, 1, 57, 99, 100)] == [
        [*range(after + 1, 101)] for after in (0, 1, 57, 99, 100)
    ]
    journal.close()


def test_the_answer_of_a_server_that_is_cut_off_is_not_taken_for_the_end(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have led the others until then; an opening would miss what they have since."""
    told = Told()
    journal = opened(streamed(nats.url, name), told)
    append(journal, told, b"a")
    state = StreamServer.state

    def older(self: StreamServer, **options: bool) -> StreamState:
        return state(self, **options)._replace(last=before)

    with closing(StreamServer(streamed(nats.url, name))) as server:
        before = server.state().last
    append(journal, told, b"b")
    with monkeypatch.context() as patched:
        patched.setattr(StreamServer, "state", older)
        with pytest.raises(StoreUnavailable, match="cut off from the others"):
            list(journal.log.records(0))
    assert bodies(journal) == [b"a", b"b"]
    journal.close()


@pytest.mark.parametrize("what", ["end", "message", "messages"])
def test_one_that_is_elected_after_the_purge_is_not_believed_that_something_is_lost(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It may not have applied yet what the one before had, until it has agreed to a purge itself."""
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    append(journal, told, b"b")
    last = told.written[-1].segment
    with closing(StreamServer(config)) as server, monkeypatch.context() as patched:
        Elections(patched, last - 1, 3)
        if what == "end":
            assert server.goes_on(last - 1)
        elif what == "message":
            assert server.message(last) is not None
        else:
            assert [at for at, _ in server.messages(last, last)] == [last]
    journal.close()


def test_what_is_lost_is_believed_in_the_end(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.journal.stream.server.PATIENCE", 0.5)
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    last = told.written[-1].segment
    with closing(StreamServer(config)) as server, monkeypatch.context() as patched:
        Elections(patched, last - 1, 1_000_000)
        assert not server.goes_on(last - 1)
        assert server.message(last) is None
    journal.close()


def test_a_message_that_is_released_is_gone_at_once(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    append(journal, told, b"b")
    last = told.written[-1].segment

    async def settled(*_: object) -> None:
        raise AssertionError("there is no doubt")

    with closing(StreamServer(config)) as server, monkeypatch.context() as patched:
        server.purge(last)
        patched.setattr(StreamServer, "_settled", settled)
        assert server.message(last - 1) is None
    journal.close()


def test_it_goes_on_when_it_is_opened_again(nats: NatsServer, name: str) -> None:
    numbers, config = set(), streamed(nats.url, name)
    for begin in range(0, 30, 10):
        told = Told()
        journal = opened(config, told, accept=lambda _: (77, 1))
        numbers.add(journal.log.journal)
        assert (journal.recovered.clean, journal.recovered.torn) == (True, None)
        assert journal.recovered.store == (77 if begin else 0)
        assert (journal.log.last_number, journal.log.last_sequence) == (begin, begin)
        append(journal, told, *[b"%d" % index * 100 for index in range(begin, begin + 10)])
        assert bodies(journal) == [b"%d" % index * 100 for index in range(begin + 10)]
        journal.close()
    assert len(numbers) == 1


def test_a_batch_that_is_larger_than_the_server_takes_is_one_unit(name: str) -> None:
    """It is read back whole; one whose writer failed in between is left out."""
    with NatsServer(settings="max_payload: 4096\n") as server:
        told, config = Told(), streamed(server.url, name)
        journal = opened(config, told)
        append(journal, told, b"a" * 10_000, b"b")
        assert bodies(journal) == [b"a" * 10_000, b"b"]
        one = told.written[0]
        assert journal.log.read(one.segment, one.offset + 5_000, 10) == b"a" * 10

        async def drop_the_last(js: JetStreamContext) -> None:
            # As if the process had been killed after its first piece.
            found = (await js.get_msg(name, one.segment)).data or b""
            head = PieceHead.unpack(found)._replace(first_number=3, last_number=3, writer=1)
            await js.publish(subject(name), head.pack() + found[HEAD:])

        pieces = PieceHead.unpack(ask(server.url, lambda js: js.get_msg(name, one.segment)).data)
        assert (pieces.piece, pieces.pieces) == (0, 4)
        ask(server.url, drop_the_last)
        append(journal, told, b"late")
        assert [type(error) for _, error in told.failed] == [LockLost]
        journal.close()
        journal = opened(config, told)
        assert journal.recovered.torn is not None
        append(journal, told, b"c" * 5_000)
        assert bodies(journal) == [b"a" * 10_000, b"b", b"c" * 5_000]
        assert bodies(journal, 2) == [b"c" * 5_000]
        journal.close()


def in_pieces(server: NatsServer, name: str) -> None:
    """Create a stream whose messages have room for 3 kB of records."""
    config = StreamConfig(name=name, subjects=[subject(name)], discard=DiscardPolicy.NEW, max_msg_size=4096)
    ask(server.url, lambda js: js.add_stream(config))


def limit(server: NatsServer, name: str) -> None:
    """Limit a stream that a journal has opened, which then finds out only when a message is refused."""
    config = ask(server.url, lambda js: js.stream_info(name)).config
    ask(server.url, lambda js: js.update_stream(config.evolve(max_bytes=20_000)))


def test_what_a_unit_without_an_end_follows_is_not_released(nats: NatsServer, name: str) -> None:
    """It says where to go on, also if the stream had room for the first pieces only."""
    in_pieces(nats, name)
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    limit(nats, name)
    for _ in range(4):
        append(journal, told, b"a" * 2500)
    journal.log.release(journal.log.last_number)
    append(journal, told, b"b" * 5000)
    append(journal, told, b"c" * 20_000)
    assert [type(error) for _, error in told.failed] == [StoreUnavailable]
    journal.log.release(5)  # a checkpoint does; then the process is killed
    state = ask(nats.url, lambda js: js.stream_info(name)).state
    assert state.first_seq <= told.written[4].segment < state.last_seq

    again = opened(config, told)
    assert again.recovered.torn is not None
    assert again.log.last_number == 5
    append(again, told, b"d" * 5000)
    append(again, told, b"e")
    again.log.release(6)
    assert bodies(again, 6) == [b"e"]
    again.close()
    journal.close()


def test_a_stream_that_begins_with_a_unit_without_an_end_opens(nats: NatsServer, name: str) -> None:
    """What was before it is released, as an earlier version did."""
    in_pieces(nats, name)
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told, accept=lambda _: (77, 1))
    limit(nats, name)
    number = journal.log.journal
    append(journal, told, b"a" * 2500)
    append(journal, told, b"b" * 2500)
    append(journal, told, b"c" * 20_000)
    assert [type(error) for _, error in told.failed] == [StoreUnavailable]
    ask(nats.url, lambda js: js.purge_stream(name, seq=told.written[-1].segment + 1))

    again = opened(config, told)
    found = again.recovered
    assert found.torn is not None
    assert (again.log.journal, found.store, found.last_number, found.last_sequence) == (number, 77, 2, 2)
    assert (found.first_number, found.clean) == (3, False)
    with pytest.raises(CorruptJournal, match="purged"):
        list(again.log.records(0))
    append(again, told, b"d" * 5000)
    assert bodies(again, 2) == [b"d" * 5000]
    assert told.written[-1].number == 3
    again.close()
    journal.close()


def test_only_who_opened_it_last_appends(nats: NatsServer, name: str) -> None:
    first, second = Told(), Told()
    config = streamed(nats.url, name)
    before = opened(config, first)
    append(before, first, b"a")
    after = opened(config, second)
    assert not after.recovered.clean
    append(before, first, b"b", b"c")
    assert [type(error) for _, error in first.failed] == [LockLost, LockLost]
    with pytest.raises(LockLost, match="another process has opened"):
        before.check()
    append(after, second, b"d")
    before.close()
    assert bodies(after) == [b"a", b"d"]
    after.close()


def test_of_two_that_open_it_at_once_one_is_refused(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)

    def meanwhile(found: Any) -> tuple[int, int]:
        append(journal, told, b"a")
        return found.store, 1

    with pytest.raises(JournalInUse, match=name):
        opened(config, Told(), accept=meanwhile)
    append(journal, told, b"b")
    assert bodies(journal) == [b"a", b"b"]
    journal.close()


def test_a_refused_opening_leaves_it_to_its_owner(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)

    def refuse(_: Any) -> tuple[int, int]:
        raise ConfigurationError("it is another's")

    with pytest.raises(ConfigurationError):
        opened(config, Told(), accept=refuse)
    append(journal, told, b"a")
    assert told.bodies == [b"a"]
    journal.close()


def test_what_is_released_is_purged_in_parts(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, *[bytes([index]) * 1000 for index in range(20)])
    for index in range(20, 40):
        journal.append(Item(bytes([index]) * 1000), waits=True)
    told.wait(40)
    before = journal.log.spans()
    assert len(before) > 2
    journal.log.release(before[1].last_number)
    assert journal.log.spans() == before[2:]
    assert journal.log.first_number == before[1].last_number + 1
    assert next(journal.log.records(journal.log.first_number - 1)).number == journal.log.first_number
    with pytest.raises(CorruptJournal, match="purged"):
        list(journal.log.records(0))
    journal.log.release(journal.log.last_number)  # the current part stays: it says where to go on
    assert len(journal.log.spans()) == 1
    journal.close()
    journal = opened(config, Told())
    assert journal.log.last_number == 40
    journal.close()


def test_what_an_earlier_process_has_left_is_released_in_parts(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    for index in range(80):
        append(journal, told, b"%d" % index * 300)
    journal.close()
    journal = opened(config, told)
    spans = journal.log.spans()
    assert 4 < len(spans) <= 9
    assert spans[-1].last_number == 80
    journal.log.release(40)
    assert 20 < journal.log.first_number <= 41
    assert bodies(journal, 40) == [b"%d" % index * 300 for index in range(40, 80)]
    state = ask(nats.url, lambda js: js.stream_info(name)).state
    assert state.first_seq == journal.log.spans()[0].segment
    journal.close()


def test_an_answer_that_was_lost_is_looked_for(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = JetStreamContext.publish
    lost: list[int] = []

    async def lose_some(self: Any, *arguments: Any, **more: Any) -> Any:
        answer = await publish(self, *arguments, **more)
        if len(lost) < 3 and answer.seq > 1 and answer.seq not in lost:
            lost.append(answer.seq)
            raise TimeoutError
        return answer

    monkeypatch.setattr(JetStreamContext, "publish", lose_some)
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    for index in range(5):
        append(journal, told, b"%d" % index)
    assert not told.failed
    assert lost == [2, 3, 4]
    assert bodies(journal) == [b"%d" % index for index in range(5)]
    journal.close()


Answer = Callable[[], Awaitable[Any]]


def answering(monkeypatch: pytest.MonkeyPatch, *answers: tuple[bool, Answer]) -> None:
    """Have the next appends answered so, each sent to the server first or not."""
    publish, left = JetStreamContext.publish, [*answers]

    async def answered(self: Any, *arguments: Any, **more: Any) -> Any:
        if not left:
            return await publish(self, *arguments, **more)
        is_sent, answer = left.pop(0)
        if is_sent:
            await publish(self, *arguments, **more)
        return await answer()

    monkeypatch.setattr(JetStreamContext, "publish", answered)


async def lost() -> None:
    raise TimeoutError


def refused(code: int, description: str) -> Answer:
    async def answer() -> None:
        raise APIError(code=503, err_code=code, description=description)

    return answer


def test_what_is_pending_is_in_doubt_while_nobody_can_be_asked(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers refuse the repetition of what they have only proposed, and then lose their quorum."""
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)

    async def unanswered(*_: Any, **__: Any) -> None:
        raise TimeoutError

    answering(monkeypatch, (False, lost), (False, refused(10071, "wrong last sequence: 1")))
    with monkeypatch.context() as patched:
        patched.setattr(server_module, "PATIENCE", 1.0)
        patched.setattr(connection_module, "PATIENCE", 1.0)
        patched.setattr(JetStreamContext, "stream_info", unanswered)
        append(journal, told, b"a")
    assert [type(error) for _, error in told.failed] == [OutcomeUnknown]
    with pytest.raises(JournalFailed):
        journal.check()
    journal.close()


def test_what_the_next_one_has_released_is_in_doubt(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was lost, and the process slept until all that it might find was gone."""
    told, next_told, config = Told(), Told(), streamed(nats.url, name)
    journal = opened(config, told)

    def go_on() -> None:
        successor = opened(config, next_told)
        for _ in range(3):
            append(successor, next_told, b"b" * 5000)
        successor.log.release(successor.log.last_number)
        assert bodies(successor, successor.log.first_number - 1) == [b"b" * 5000]
        successor.close()

    async def answer() -> None:
        await asyncio.to_thread(go_on)
        raise TimeoutError

    answering(monkeypatch, (True, answer))
    append(journal, told, b"a")
    [(_, error)] = told.failed
    assert isinstance(error, LockLost)
    assert error.in_doubt
    with pytest.raises(LockLost) as later:
        journal.append(Item(b"later"))
    assert not later.value.in_doubt
    assert "during this write" not in str(later.value)
    journal.close()


def test_what_a_failing_server_did_not_store_is_looked_for(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader whose own disk fails says so of what the others have."""
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    answering(monkeypatch, (True, refused(10077, "write 1.blk: input/output error")))
    append(journal, told, b"a")
    assert not told.failed
    append(journal, told, b"b")
    assert bodies(journal) == told.bodies == [b"a", b"b"]
    journal.close()


def test_a_message_of_its_own_in_the_way_is_no_other_process(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    answering(monkeypatch, (True, refused(10047, "insufficient storage resources available")))
    append(journal, told, b"a")
    append(journal, told, b"b")
    assert [type(error) for _, error in told.failed] == [StoreUnavailable, JournalFailed]
    assert "that its servers had refused" in str(told.failed[1][1])
    journal.close()


def test_it_outlives_a_killed_server(name: str) -> None:
    """A write that is under way when the server is killed is written once it is there again."""
    with NatsServer() as server:
        told, config = Told(), streamed(server.url, name)
        journal = opened(config, told)
        append(journal, told, b"a")
        server.kill()
        journal.append(Item(b"b"))
        server.start()
        told.wait(2)
        append(journal, told, b"c")
        assert not told.failed
        assert bodies(journal) == [b"a", b"b", b"c"]
        journal.close()


def test_a_server_that_stays_away_fails_the_write(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not connected, so nothing is in doubt, and it goes on when the server is there again."""
    with NatsServer() as server:
        told, config = Told(), streamed(server.url, name)
        journal = opened(config, told)
        append(journal, told, b"a")
        server.kill()
        stream: Any = journal.log
        wait_until(lambda: not stream._server.connection.is_connected, what="that it is noticed")
        monkeypatch.setattr(server_module, "PATIENCE", 0.3)
        append(journal, told, b"b")
        assert [type(error) for _, error in told.failed] == [StoreUnavailable]
        assert "does not answer" in str(told.failed[0][1])
        monkeypatch.setattr(server_module, "PATIENCE", 30.0)
        server.start()
        append(journal, told, b"c")
        assert bodies(journal) == [b"a", b"c"]
        journal.close()


def test_a_full_stream_refuses_and_goes_on_when_it_has_room(nats: NatsServer, name: str) -> None:
    ask(
        nats.url,
        lambda js: js.add_stream(
            StreamConfig(name=name, subjects=[subject(name)], discard=DiscardPolicy.NEW, max_bytes=20_000)
        ),
    )
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    while not told.failed:
        append(journal, told, b"x" * 1500)
    written = len(told.written)
    assert written > 5
    assert type(told.failed[0][1]) is StoreUnavailable
    assert "is full" in str(told.failed[0][1])
    journal.log.release(journal.log.last_number)
    append(journal, told, b"y")
    assert len(told.written) == written + 1
    journal.close()
    assert ask(nats.url, lambda js: js.stream_info(name)).state.last_seq == written + 3


def test_a_full_stream_can_be_opened_by_the_next_process(nats: NatsServer, name: str) -> None:
    """Which then makes room: it has applied to its database what is there."""
    wanted = StreamConfig(name=name, subjects=[subject(name)], discard=DiscardPolicy.NEW, max_bytes=100_000)
    ask(nats.url, lambda js: js.add_stream(wanted))
    config = streamed(nats.url, name, journal_log_file_size=32 << 20)  # more than the stream may have
    for _ in range(3):
        told = Told()
        journal = opened(config, told)
        for size in (9_000, 500, 50, 1):
            refused = len(told.failed)
            while len(told.failed) == refused:
                append(journal, told, b"x" * size)
        assert "is full" in str(told.failed[0][1])
        # It is not closed: its process is killed, and leaves no room.
    told = Told()
    journal = opened(config, told)
    journal.log.release(journal.log.last_number)
    append(journal, told, b"y")
    assert told.bodies == [b"y"]
    journal.close()


def test_a_server_without_room_refuses_too(name: str) -> None:
    """That of its disk, or of its limit: nothing that was acknowledged makes way."""
    with NatsServer(jetstream="max_file_store: 1mb\n") as server:
        told, config = Told(), streamed(server.url, name)
        journal = opened(config, told)
        while not told.failed:
            append(journal, told, b"x" * 50_000)
        assert type(told.failed[0][1]) is StoreUnavailable
        assert "is full" in str(told.failed[0][1])
        assert bodies(journal) == told.bodies
        journal.log.release(journal.log.last_number)
        append(journal, told, b"y")
        assert told.bodies[-1] == b"y"
        journal.close()


@pytest.mark.parametrize("reader", ["records", "opening"])
def test_a_message_that_somebody_deleted_is_missed(nats: NatsServer, name: str, reader: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    for index in range(5):
        append(journal, told, b"%d" % index)
    ask(nats.url, lambda js: js.delete_msg(name, told.written[2].segment))
    if reader == "opening":
        journal.close()
        journal = opened(config, told)
    with pytest.raises(CorruptJournal, match=r"record 3 is missing; .* journal adopt"):
        list(journal.log.records(0))
    journal.close()


def test_the_last_message_that_somebody_deleted_is_missed(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    append(journal, told, b"b")
    journal.close()
    ask(nats.url, lambda js: js.delete_msg(name, 4))
    ask(nats.url, lambda js: js.delete_msg(name, 3))
    with pytest.raises(CorruptJournal, match="message 4 of the stream is missing"):
        opened(config, told)
    journal = opened(streamed(nats.url, name, ignore_missing_journalfiles=True), told)
    assert bodies(journal) == [b"a"]
    journal.close()


def publish(server: NatsServer, name: str, *messages: bytes) -> None:
    """Publish to the subject of a journal, as a stranger may."""

    async def send(js: JetStreamContext) -> None:
        for message in messages:
            await js.publish(subject(name), message)

    ask(server.url, send)


def test_messages_of_a_stranger_are_left_out(
    nats: NatsServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """While the journal is open, between two openings, and before the first one."""
    config = streamed(nats.url, name)
    StreamServer(config).close()
    publish(nats, name, b"first")
    told = Told()
    journal = opened(config, told, accept=lambda _: (77, 1))
    append(journal, told, b"a")
    publish(nats, name, b"hello", b"")
    append(journal, told, b"b")
    assert not told.failed
    assert "message 4 of the stream" in caplog.text
    assert "is not a journal's, and is left out" in caplog.text
    last = told.written[-1]
    assert journal.log.read(last.segment, last.offset, 1) == b"b"
    assert bodies(journal) == [b"a", b"b"]
    publish(nats, name, b"while it is closed")
    journal.close()
    publish(nats, name, *[b"x"] * 20)
    for number, body in ((2, b"c"), (3, b"d")):
        journal = opened(config, told, accept=lambda _: (77, 1))
        assert (journal.log.last_number, journal.recovered.store) == (number, 77)
        append(journal, told, body)
        for after in range(number + 1):
            assert bodies(journal, after) == [b"a", b"b", b"c", b"d"][after : number + 1]
        publish(nats, name, *[b"y"] * 5)
    ask(nats.url, lambda js: js.delete_msg(name, 4))
    assert bodies(journal) == [b"a", b"b", b"c", b"d"]
    journal.close()


def test_a_strangers_message_in_a_unit_of_several_has_it_written_again(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces(nats, name)
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    appended, calls = StreamServer.append, itertools.count()

    def disturbed(self: StreamServer, message: bytes, after: int) -> None:
        if next(calls) == 1:
            publish(nats, name, b"hello")
        appended(self, message, after)

    monkeypatch.setattr(StreamServer, "append", disturbed)
    append(journal, told, b"a" * 8000, b"b")
    assert not told.failed
    assert bodies(journal) == [b"a" * 8000, b"b"]
    journal.close()
    journal = opened(config, Told())
    assert bodies(journal) == [b"a" * 8000, b"b"]
    journal.close()


@pytest.mark.parametrize("what", ["message", "state"])
def test_what_is_released_while_it_is_opened_is_not_missed(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A process that has lost its lease may have asked for it before."""
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    for index in range(5):
        append(journal, told, b"%d" % index)
    journal.close()
    asked, late_purge = getattr(StreamServer, what), [told.written[3].segment]

    def late(self: StreamServer, *arguments: Any, **options: Any) -> Any:
        answer = asked(self, *arguments, **options) if what == "state" else None
        if late_purge:
            self.purge(late_purge.pop())
        return answer or asked(self, *arguments, **options)

    monkeypatch.setattr(StreamServer, what, late)
    again = opened(config, told)
    assert (again.log.first_number, again.log.last_number) == (4, 5)
    assert bodies(again, 3) == [b"3", b"4"]
    again.close()


def test_what_is_released_while_it_is_read_is_missed_only_if_it_is_needed(
    nats: NatsServer, name: str
) -> None:
    told, config = Told(), streamed(nats.url, name, journal_log_file_size=1 << 20)
    journal = opened(config, told)
    for index in range(60):
        append(journal, told, b"%d" % index)
    server: Any = journal.log

    reading = journal.log.records(0, applied=50)
    assert next(reading).number == 1
    server._server.purge(told.written[40].segment)
    read = [record.number for record in reading]
    assert read[-20:] == [*range(41, 61)]
    assert len(read) < 59
    assert [record.number for record in journal.log.records(0, applied=40)] == [*range(41, 61)]
    with pytest.raises(CorruptJournal, match="record 40 is missing"):
        list(journal.log.records(0, applied=39))

    reading = journal.log.records(40, applied=45)
    assert next(reading).number == 41
    server._server.purge(told.written[-1].segment)
    with pytest.raises(CorruptJournal, match="missing"):
        list(reading)
    journal.close()


def test_a_reader_that_brings_nothing_asks_what_there_is(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    fetched = iter([1])

    async def nothing(*_: Any) -> list[Any]:
        assert next(fetched, None), "it is asked again"
        return []

    monkeypatch.setattr(JetStreamContext.PullSubscription, "fetch", nothing)
    stream: Any = journal.log
    assert list(stream._server.messages(3, 9)) == []
    journal.close()


def test_messages_that_were_sent_to_a_lost_connection_are_read_again(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes them for received, and goes on behind them."""
    told = Told()
    journal = opened(streamed(nats.url, name), told)
    every = [b"%d" % number for number in range(40)]
    for body in every:  # a message each
        append(journal, told, body)
    fetch, number = JetStreamContext.PullSubscription.fetch, itertools.count()

    async def lossy(self: Any, *arguments: Any) -> Any:
        found = await fetch(self, *arguments)
        return await fetch(self, *arguments) if next(number) == 1 else found

    monkeypatch.setattr(JetStreamContext.PullSubscription, "fetch", lossy)
    assert bodies(journal) == every
    assert next(number) > 3
    journal.close()


def test_messages_that_are_sent_again_are_left_out(
    nats: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that goes on at another server may begin with what it has sent there before."""
    told = Told()
    journal = opened(streamed(nats.url, name), told)
    for number in range(60):
        append(journal, told, b"%d" % number)
    log: Any = journal.log
    fetch, readers, calls = JetStreamContext.PullSubscription.fetch, list[Any](), itertools.count()

    async def again(self: Any, *arguments: Any) -> Any:
        if next(calls) == 2:
            readers.append(await _reader(name, subject(name), 5, log._server.connection.js))
        return await fetch(readers[0] if readers else self, *arguments)

    monkeypatch.setattr(JetStreamContext.PullSubscription, "fetch", again)
    assert [at for at, _ in log._server.messages(1, 61)] == [*range(1, 62)]
    assert readers
    journal.close()


def test_a_message_that_was_changed_is_found(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a" * 100)
    message = bytearray(ask(nats.url, lambda js: js.get_msg(name, 2)).data)
    message[HEAD + 60] ^= 1
    head = PieceHead.unpack(bytes(message))
    # In place of the next one: the numbers of another position never match, either.
    changed = head._replace(first_number=2, last_number=2).pack() + bytes(message[HEAD:])
    ask(nats.url, lambda js: js.publish(subject(name), changed))
    journal.close()
    journal = opened(config, Told())
    with pytest.raises(CorruptJournal, match="record 2 is damaged"):
        list(journal.log.records(0))
    journal.close()


def test_a_purged_stream_is_refused(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    journal.close()
    ask(nats.url, lambda js: js.purge_stream(name))
    with pytest.raises(CorruptJournal, match="it was purged"):
        opened(config, Told())
    journal = opened(streamed(nats.url, name, ignore_missing_journalfiles=True), Told())
    assert journal.log.last_number == 0
    journal.close()


def test_a_stream_that_is_deleted_ends_its_journal(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    ask(nats.url, lambda js: js.delete_stream(name))
    append(journal, told, b"b")
    assert [type(error) for _, error in told.failed] == [JournalFailed]
    assert "was deleted" in str(told.failed[0][1])
    journal.close()


def test_one_that_was_made_again_ends_the_journal_before(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    append(journal, told, b"b")
    ask(nats.url, lambda js: js.delete_stream(name))
    opened(config, Told()).close()
    append(journal, told, b"c")
    assert [type(error) for _, error in told.failed] == [JournalFailed]
    assert "another one was made" in str(told.failed[0][1])
    journal.close()


def test_one_that_was_made_again_as_long_as_before_is_noticed_without_a_write(
    nats: NatsServer, name: str
) -> None:
    told = Told()
    journal = opened(streamed(nats.url, name), told)
    append(journal, told, b"a")
    journal.reach()

    async def make_again(js: JetStreamContext) -> None:
        await js.delete_stream(name)
        await js.add_stream(StreamConfig(name=name, subjects=[subject(name)], discard=DiscardPolicy.NEW))
        for _ in range(2):
            await js.publish(subject(name), b"")

    ask(nats.url, make_again)
    with pytest.raises(JournalFailed, match="another one was made"):
        journal.reach()
    journal.close()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"subjects": ["elsewhere"]}, "is not a journal's"),
        ({"max_age": 60.0}, "would lose messages"),
        ({"discard": DiscardPolicy.OLD}, "would lose messages"),
        ({"storage": "memory"}, "would lose messages"),
        ({"deny_purge": True}, "must not be sealed"),
    ],
)
def test_a_stream_that_would_lose_messages_is_refused(
    nats: NatsServer, name: str, given: dict[str, Any], sentence: str
) -> None:
    wanted = {"name": name, "subjects": [subject(name)], "discard": DiscardPolicy.NEW, **given}
    ask(nats.url, lambda js: js.add_stream(StreamConfig(**wanted)))
    try:
        with pytest.raises(ConfigurationError, match=sentence):
            opened(streamed(nats.url, name), Told())
    finally:
        ask(nats.url, lambda js: js.delete_stream(name))


def change(server: NatsServer, name: str, **options: Any) -> None:
    """Change the configuration of a stream, as an administrator may while a journal is open."""
    config = ask(server.url, lambda js: js.stream_info(name)).config
    ask(server.url, lambda js: js.update_stream(config.evolve(**options)))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"max_age": 60.0, "duplicate_window": 60.0}, "would lose messages"),
        ({"discard": DiscardPolicy.OLD}, "would lose messages"),
        ({"max_msgs": 100}, "would lose messages"),
        ({"max_msg_size": 1000}, "takes messages of 1000 bytes at most"),
    ],
)
def test_a_stream_that_is_changed_while_it_is_used_is_noticed(
    nats: NatsServer, name: str, given: dict[str, Any], sentence: str
) -> None:
    """By its writer, and by those that follow it."""
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    with closing(StreamServer(config)) as follower:
        change(nats, name, **given)
        with pytest.raises(ConfigurationError, match=sentence):
            journal.reach()
        with pytest.raises(ConfigurationError, match=sentence):
            follower.state()
        found = journal.health()
        assert found is not None
        assert found.is_unsafe
        assert sentence in str(found.problem)
        for seen in (found, looked_at(config)):
            assert [one.name for one in seen.diagnoses] == [UNSAFE]
        wait_until(lambda: journal.log.is_at_risk(0), what="that the journal notices it by itself")
        change(nats, name, max_age=0.0, discard=DiscardPolicy.NEW, max_msgs=-1, max_msg_size=-1)
        journal.reach()
        wait_until(lambda: not journal.log.is_at_risk(0), what="that it is repaired")
    append(journal, told, b"b")
    assert bodies(journal) == [b"a", b"b"]
    journal.close()


def test_a_limit_that_is_set_while_it_is_used_refuses_at_once(nats: NatsServer, name: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    append(journal, told, b"a")
    change(nats, name, max_msg_size=8192)
    append(journal, told, b"b" * 20_000)
    assert "max_msg_size was lowered" in str(told.failed[0][1])
    append(journal, told, b"c" * 20_000)  # in pieces now
    change(nats, name, max_msgs=ask(nats.url, lambda js: js.stream_info(name)).state.messages)
    append(journal, told, b"d")
    assert "takes no more messages" in str(told.failed[1][1])
    assert [type(error) for _, error in told.failed] == [StoreUnavailable] * 2
    size = ask(nats.url, lambda js: js.stream_info(name)).state.bytes
    change(nats, name, max_msgs=-1, max_bytes=size + 1000)
    append(journal, told, b"e" * 2000)
    assert "is full" in str(told.failed[2][1])
    change(nats, name, max_bytes=-1)
    journal.reach()
    append(journal, told, b"f")
    assert bodies(journal) == [b"a", b"c" * 20_000, b"f"]
    journal.close()


@pytest.mark.parametrize("how", ["purge", "deletion"])
def test_what_somebody_removes_from_a_stream_in_use_is_noticed(nats: NatsServer, name: str, how: str) -> None:
    told, config = Told(), streamed(nats.url, name)
    journal = opened(config, told)
    for index in range(5):
        append(journal, told, b"%d" % index)
    assert not journal.log.is_at_risk(0)
    if how == "purge":
        ask(nats.url, lambda js: js.purge_stream(name, seq=4))
    else:
        ask(nats.url, lambda js: js.delete_msg(name, 4))
    found = journal.health()
    assert found is not None
    assert "messages were removed that this broker had not released" in str(found.problem)
    assert found.is_unsafe
    wait_until(lambda: journal.log.is_at_risk(4), what="that the journal notices it by itself")
    wait_until(lambda: not journal.log.is_at_risk(5), what="that a database has the records")
    after = journal.health()
    assert after is not None
    assert after.problem is None
    journal.close()


def test_fewer_replicas_than_asked_for_are_refused(nats: NatsServer, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot have 3 replicas"):
        opened(streamed(nats.url, name, replicas=3), Told())
    opened(streamed(nats.url, name), Told()).close()
    with pytest.raises(ConfigurationError, match="has 1 replicas, and 3 are asked for"):
        opened(streamed(nats.url, name, replicas=3), Told())


def test_a_server_without_jetstream_is_refused(name: str) -> None:
    with NatsServer(jetstream=None) as server, pytest.raises(ConfigurationError, match="has no JetStream"):
        opened(streamed(server.url, name), Told())


def test_a_login_is_asked_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with NatsServer(settings="authorization { user: mq, password: secret }\n") as server:
        login = {"stream_user": "mq", "stream_password_env": "STREAM_PASSWORD"}
        config = streamed(server.url, name, **login)
        with pytest.raises(ConfigurationError, match="which is not set"):
            opened(config, Told())
        monkeypatch.setenv("STREAM_PASSWORD", "wrong-password")
        monkeypatch.setattr(connection_module, "CONNECTING", 1.0)
        with pytest.raises(StoreUnavailable, match="refuses the login") as error:
            opened(config, Told())
        assert "wrong-password" not in str(error.value)
        monkeypatch.setenv("STREAM_PASSWORD", "secret")
        opened(config, Told()).close()


def test_what_a_server_cannot_sync_is_refused(nats: NatsServer, name: str) -> None:
    """Debian's nats-server acknowledges before it syncs."""
    with pytest.raises(ConfigurationError, match=r"sync = 'quorum_disk' needs 2\.10"):
        opened(streamed(nats.url, name, sync="quorum_disk"), Told())


def test_a_newer_server_is_asked_whether_it_syncs(name: str) -> None:
    program = newer()
    with (
        NatsServer(program=program) as lazy,
        NatsServer(program=program, jetstream="sync_interval: always\n") as eager,
    ):
        options = {"sync": "quorum_disk"}
        with pytest.raises(ConfigurationError, match="acknowledges before it syncs"):
            opened(streamed(lazy.url, name, stream_monitors=lazy.monitor, **options), Told())
        told = Told()
        journal = opened(streamed(eager.url, name, stream_monitors=eager.monitor, **options), told)
        append(journal, told, b"a")
        assert bodies(journal) == [b"a"]
        journal.close()


@pytest.mark.parametrize("answer", ["INFO {}\r\n", "[]", "{}", '{"jetstream": {"config": null}}'])
def test_what_is_no_monitoring_is_told(answer: str) -> None:
    """The servers' own port is taken for it easily."""
    if answer[0] in "[{":
        answer = f"HTTP/1.0 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n{answer}"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(1000)
                client.sendall(answer.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(StoreUnavailable, match=r"does not answer as .*correct stream_monitors"):
            server_module._monitored(url)
        thread.join()


def test_a_port_that_is_none_is_told() -> None:
    with pytest.raises(StoreUnavailable, match="correct stream_monitors"):
        server_module._monitored("http://127.0.0.1:99999")


@pytest.mark.slow
def test_a_cluster_of_three_outlives_the_loss_of_one(name: str) -> None:
    """The leader is killed under writing threads; nothing acknowledged is lost, and nothing written twice."""
    with NatsCluster() as cluster:
        told, config = Told(), streamed(cluster.url, name, replicas=3)
        journal = opened(config, told)

        def produce(thread: int) -> None:
            for index in range(50):
                journal.append(Item(b"%d %d" % (thread, index)), waits=True)

        threads = [threading.Thread(target=produce, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        told.wait(40)
        leader = ask(cluster.url.split(",")[0], lambda js: js.stream_info(name)).cluster.leader
        next(server for server in cluster.servers if server.name == leader).kill()
        for thread in threads:
            thread.join()
        told.wait(200)
        assert not told.failed
        assert sorted(bodies(journal)) == sorted(told.bodies)
        assert len({*told.bodies}) == 200
        journal.close()

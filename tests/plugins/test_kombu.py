"""The transport for kombu: queues, exchanges and bindings in the database, messages as claims."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Protocol

import kombu
import pytest
from kombu.exceptions import ChannelError

import jdbcstore.plugins.kombu as plugin
from jdbcstore import Claims, Message
from jdbcstore.errors import ClaimLost, ConfigurationError, OutcomeUnknown, StoreClosed, StoreUnavailable
from jdbcstore.plugins.sharing import SharedClaims, open_claims
from jdbcstore.stores.claims import ClaimQueue
from jdbcstore.testing.polling import wait_until
from tests.support import bad_messages
from tests.support.databases import Database
from tests.support.kombu.neutral import run_common
from tests.support.servers import Server

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

ours = pytest.mark.backends("sqlite")
"""For what no database decides."""
CASES = 29


class Connect(Protocol):
    def __call__(self, **options: Any) -> kombu.Connection: ...


@pytest.fixture
def connect(database: Database) -> Iterator[Connect]:
    """Connects at each call; those with the same options share their claims, as in one process."""
    with ExitStack() as opened:

        def connect(**options: Any) -> kombu.Connection:
            url = f"jdbcstore+{database.url}"
            made = kombu.Connection(url, transport_options={"polling_interval": 0.2, **options})
            return opened.enter_context(made)

        yield connect
    wait_until(lambda: database.connections() == 0, what="that closing left no connection")


@pytest.fixture
def channel(connect: Connect) -> Any:
    return connect().channel()


@pytest.fixture
def other(connect: Connect) -> Any:
    """A channel as of another process."""
    return connect(lease=29.0).channel()


def publish(channel: Any, body: Any, **options: Any) -> None:
    kombu.Producer(channel).publish(body, **options)


def declare(channel: Any, name: str, *arguments: Any, **options: Any) -> Any:
    queue = kombu.Queue(name, *arguments, **options)(channel)
    queue.declare()
    return queue


def drained(channel: Any, name: str, timeout: float = 30.0, **options: Any) -> list[Any]:
    """What one round of draining delivers; not acknowledged."""
    found: list[Any] = []
    with kombu.Consumer(channel, [kombu.Queue(name)], auto_declare=False, **options) as consumer:
        consumer.register_callback(lambda _, message: found.append(message))
        channel.connection.client.drain_events(timeout=timeout)
    return found


@pytest.mark.slow
def test_kombus_own_tests_pass(database: Database, tmp_path: Any) -> None:
    unreachable = re.sub(r":\d+/", ":9/", database.url)
    if unreachable == database.url:
        unreachable = f"sqlite:///{tmp_path}/missing/mq.db"

    passed, said = run_common(database.url, unreachable)

    assert passed == CASES, said


def test_bindings_are_those_of_all_processes(channel: Any, other: Any) -> None:
    topic = kombu.Exchange("news", "topic")
    declare(channel, "all", topic, "#")
    declare(channel, "sport", topic, "*.sport")
    declare(other, "copies", kombu.Exchange("copies", "fanout"))

    publish(other, "1", exchange="news", routing_key="local.sport")
    publish(other, "2", exchange="news", routing_key="weather")
    publish(channel, "3", exchange="copies", routing_key="anything")
    publish(channel, "4", exchange="missing", routing_key="sport")

    bodies = {name: [one.payload for one in drained(channel, name)] for name in ("all", "sport", "copies")}
    assert bodies == {"all": ["1", "2"], "sport": ["1"], "copies": ["3"]}
    assert ("sport", "news", "*.sport") in [*other.list_bindings()]


def test_unbound_and_deleted(channel: Any, other: Any, database: Database) -> None:
    exchange = kombu.Exchange("one", "direct")
    bound = declare(channel, "bound", exchange, "key")
    declare(channel, "deleted", exchange, "key")

    bound.unbind_from(exchange, "key")
    publish(other, "1", exchange="one", routing_key="key")
    assert other.queue_declare("deleted", passive=True).message_count == 1
    other.queue_delete("deleted")
    publish(other, "2", exchange="one", routing_key="key")
    publish(other, "3", routing_key="deleted")

    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == []
    other.exchange_delete("one")
    assert database.rows("SELECT * FROM JDBCSTORE_BINDINGS") == []


@ours
def test_what_is_not_there_is_an_error_of_the_channel(channel: Any) -> None:
    channel.exchange_declare("one", "direct")
    channel.exchange_declare("one", "direct", passive=True)
    calls: dict[str, list[Callable[[], Any]]] = {
        "404": [
            lambda: channel.queue_declare("missing", passive=True),
            lambda: channel.exchange_declare("missing", passive=True),
            lambda: channel.queue_bind("any", "missing", "key"),
            lambda: channel.basic_consume("missing", False, print, "tag"),
        ],
        "406": [lambda: channel.exchange_declare("one", "topic")],
        "540": [lambda: channel.exchange_declare("two", "headers")],
    }
    for code, some in calls.items():
        for call in some:
            with pytest.raises(ChannelError) as raised:
                call()
            assert raised.value.reply_code == code
            assert isinstance(raised.value, channel.connection.client.channel_errors)


def test_names_are_exact_and_may_be_long(channel: Any, other: Any) -> None:
    long = "x" * 230
    for name in ("Orders", "orders", long):
        declare(channel, name)
        publish(channel, name, routing_key=name)

    assert [drained(other, name)[0].payload for name in ("orders", "Orders", long)] == [
        "orders",
        "Orders",
        long,
    ]
    with pytest.raises(ChannelError):
        channel.exchange_declare("x" * 251)


def test_acknowledged_returned_and_rejected(channel: Any, database: Database) -> None:
    declare(channel, "q")
    for body in ("1", "2", "3"):
        publish(channel, body, routing_key="q", content_type="text/plain", serializer="raw")

    one, two, three = drained(channel, "q")
    assert not one.delivery_info["redelivered"]
    one.ack()
    two.requeue()
    three.reject()

    [again] = drained(channel, "q")
    assert again.delivery_info["redelivered"]
    again.ack()
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == []


def test_closing_returns_what_was_not_acknowledged(connect: Connect, other: Any) -> None:
    one = connect()
    channel = one.channel()
    declare(channel, "q")
    publish(channel, "1", routing_key="q")
    publish(channel, "2", routing_key="q")
    assert len(drained(channel, "q")) == 2

    one.close()

    assert [(one.payload, one.delivery_info["redelivered"]) for one in drained(other, "q")] == [
        ("1", False),
        ("2", False),
    ]


@ours
def test_the_prefetch_count_limits_what_is_claimed(channel: Any, other: Any) -> None:
    declare(channel, "q")
    for number in range(5):
        publish(channel, number, routing_key="q")

    assert [one.payload for one in drained(channel, "q", prefetch_count=2)] == [0, 1]
    assert [one.payload for one in drained(other, "q")] == [2, 3, 4]


@ours
def test_without_acknowledgements_messages_are_removed(channel: Any, database: Database) -> None:
    declare(channel, "q")
    publish(channel, "1", routing_key="q")
    publish(channel, "2", routing_key="q")

    assert channel.basic_get("q", no_ack=True).payload == "1"
    assert [one.payload for one in drained(channel, "q", no_ack=True)] == ["2"]
    assert channel.basic_get("q") is None
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == []


@ours
def test_a_lost_claim_is_an_error_of_the_connection(channel: Any, database: Database) -> None:
    declare(channel, "q")
    publish(channel, "1", routing_key="q")
    channel.basic_qos(0, 1, False)
    [message] = drained(channel, "q")
    assert not channel.qos.can_consume()
    database.execute("DELETE FROM JDBCSTORE_CLAIMS")

    with pytest.raises(ClaimLost):
        message.ack()
    assert channel.qos.can_consume()
    assert ClaimLost in channel.connection.client.connection_errors
    assert [one.payload for one in drained(channel, "q")] == ["1"]


@ours
def test_what_a_channel_lost_and_claimed_again_returns_when_it_closes(
    channel: Any, other: Any, database: Database
) -> None:
    # Seed 380 of the world of kombu, when it was new: the message stayed claimed until the process ended.
    declare(channel, "q")
    publish(channel, "1", routing_key="q")
    assert len(drained(channel, "q")) == 1
    claims = channel.connection.shared.claims
    database.execute(
        "UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE ID = :id", id=claims.database.lease.number
    )
    claims.database.lease.renew()
    assert [one.delivery_info["redelivered"] for one in drained(channel, "q")] == [True]

    channel.close()

    assert [one.payload for one in drained(other, "q")] == ["1"]


@ours
def test_what_was_lost_while_a_message_before_it_was_processed_is_not_delivered(
    channel: Any, other: Any, database: Database
) -> None:
    # It would come unmarked, behind the delivery of another process.
    declare(channel, "q")
    for body in ("1", "2"):
        publish(channel, body, routing_key="q")
    lease = channel.connection.shared.claims.database.lease
    delivered: list[Any] = []
    elsewhere: list[Any] = []

    def stopped(_: Any, message: Any) -> None:
        delivered.append(message)
        if elsewhere:
            return
        database.execute("UPDATE JDBCSTORE_CLAIM_SESSIONS SET EXPIRES = 1 WHERE ID = :id", id=lease.number)
        lease.renew()
        elsewhere.extend(drained(other, "q"))

    with kombu.Consumer(channel, [kombu.Queue("q")], callbacks=[stopped], auto_declare=False):
        channel.connection.client.drain_events(timeout=30)

    assert [one.payload for one in delivered] == ["1"]
    marks = [(one.payload, one.delivery_info["redelivered"]) for one in elsewhere]
    assert marks == [("1", True), ("2", True)]
    for message in elsewhere:
        message.ack()


@ours
@pytest.mark.parametrize("how", ["close", "requeue"])
def test_a_return_without_an_answer_takes_no_message_from_another_channel(
    channel: Any, connect: Connect, other: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # Seed 500901 of the world of kombu: a third consumer got it unmarked, while the second processed it.
    declare(channel, "q")
    publish(channel, "1", routing_key="q")
    [message] = drained(channel, "q")
    shared = channel.connection.shared
    run = shared.claims.database.run

    def unanswered(work: Callable[[Any], Any]) -> None:
        monkeypatch.undo()
        run(work)
        raise OutcomeUnknown

    monkeypatch.setattr(shared.claims.database, "run", unanswered)
    if how == "requeue":
        with pytest.raises(OutcomeUnknown):
            message.requeue()
    else:
        channel.close()
    [again] = drained(connect().channel(), "q")
    assert again.delivery_info["redelivered"] == (how == "requeue")

    channel.close()
    shared._keep()

    assert other.basic_get("q") is None
    again.ack()


@ours
def test_the_shorter_time_to_live_applies(channel: Any, database: Database) -> None:
    declare(channel, "q", message_ttl=100)
    publish(channel, "1", routing_key="q")
    publish(channel, "2", routing_key="q", expiration=50)
    publish(channel, "3", routing_key="q", expiration=200)

    now_ms = channel._shared.claims.database.clock.now_ms()
    left = [
        (at - now_ms) / 1000 for (at,) in database.rows("SELECT EXPIRATION FROM ACTIVEMQ_MSGS ORDER BY ID")
    ]
    assert [round(one, -1) for one in left] == [100, 50, 100]


def test_an_unused_queue_expires(channel: Any, connect: Connect, database: Database) -> None:
    declare(channel, "kept", expires=1000)
    declare(channel, "temporary", kombu.Exchange("copies", "fanout"), expires=10)
    declare(channel, "auto", auto_delete=True)
    publish(channel, "1", routing_key="temporary")
    assert len(database.rows("SELECT NAME FROM JDBCSTORE_QUEUES WHERE UNUSED_UNTIL IS NOT NULL")) == 3
    database.execute("UPDATE JDBCSTORE_QUEUES SET UNUSED_UNTIL = 1 WHERE NAME <> 'kept'")

    publish(channel, "2", exchange="copies")
    publish(channel, "3", routing_key="temporary")
    with pytest.raises(ChannelError):
        channel.queue_declare("temporary", passive=True)
    connect(lease=28.0).connect()

    assert database.rows("SELECT NAME FROM JDBCSTORE_QUEUES") == [("kept",)]
    assert database.rows("SELECT QUEUE FROM JDBCSTORE_BINDINGS") == []
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == []


def test_a_queue_declared_again_begins_empty(channel: Any, database: Database) -> None:
    declare(channel, "q", kombu.Exchange("copies", "fanout"), expires=10)
    publish(channel, "1", routing_key="q")
    database.execute("UPDATE JDBCSTORE_QUEUES SET UNUSED_UNTIL = 1")

    channel.queue_declare("q")
    assert channel.queue_declare("q", passive=True).message_count == 0
    assert [*channel.list_bindings()] == []


def test_a_consumer_keeps_its_queue_from_expiring(connect: Connect, database: Database) -> None:
    channel = connect(lease=6.0).channel()
    queue = declare(channel, "q", expires=1000)
    query = "SELECT UNUSED_UNTIL FROM JDBCSTORE_QUEUES"

    with kombu.Consumer(channel, [queue]):
        [before] = database.rows(query)
        wait_until(lambda: database.rows(query)[0] > before)
        database.execute("DELETE FROM JDBCSTORE_QUEUES")
        with pytest.raises(channel.connection.client.connection_errors, match="q have expired"):
            drain_for_ever(channel)


def drain_for_ever(channel: Any) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            channel.connection.client.drain_events(timeout=0.1)


@ours
def test_messages_of_other_clients(channel: Any, database: Database) -> None:
    declare(channel, "q")
    with Claims(database.url) as claims:
        claims.queue("q").add(
            Message("text", properties={"n": 1}), Message(b"\0\xff"), Message({"a": 1}, correlation_id="c")
        )

    text, binary, mapping = drained(channel, "q", accept=["text/plain", "application/data", "json"])

    assert (text.payload, text.headers) == ("text", {"n": 1})
    assert binary.payload == b"\0\xff"
    assert (mapping.payload, mapping.properties["correlation_id"]) == ({"a": 1}, "c")


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_an_idle_worker_has_two_connections(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, database: Database
) -> None:
    """One that listens, and one for all the rest."""
    monkeypatch.setattr("jdbcstore.stores.claims.connections._UNUSED", 0.2, raising=False)
    monkeypatch.setattr("jdbcstore.stores.jdbc.wakeups._IDLE", 0.2, raising=False)
    channel = request.getfixturevalue("connect")().channel()
    declare(channel, "q")
    for number in range(5):
        publish(channel, f"{number}", routing_key="q")
    found: list[Any] = []
    with kombu.Consumer(channel, [kombu.Queue("q")], auto_declare=False) as consumer:

        def take(_body: Any, message: Any) -> None:
            found.append(message)
            message.ack()

        consumer.register_callback(take)

        def looks(times: int) -> set[int]:
            seen = set()
            for _ in range(times):
                with contextlib.suppress(TimeoutError):
                    channel.connection.client.drain_events(timeout=0.05)
                seen.add(database.connections())
            return seen

        wait_until(lambda: max(looks(10)) <= 2 and len(found) == 5, what="that two are left")


ENVELOPE = '{"body": "", "properties": {"delivery_info": {}}}'


@pytest.mark.parametrize(
    "body",
    [
        *("no JSON", "[1]", "{}", "null", "7", '"x"', ENVELOPE.replace('{"delivery_info": {}}', "[]")),
        ENVELOPE.replace("{}", "7"),
        ENVELOPE.replace('""', "7"),
        ENVELOPE.replace('"body"', '"headers": [], "body"'),
        ENVELOPE.replace('"body"', '"content-type": {}, "body"'),
        ENVELOPE.replace('"delivery_info"', '"body_encoding": "zip", "delivery_info"'),
        ENVELOPE.replace('""', '"x"').replace(
            '"delivery_info"', '"body_encoding": "base64", "delivery_info"'
        ),
        ENVELOPE.replace('""', '"x"').replace(
            '"delivery_info"', '"body_encoding": "BASE64", "delivery_info"'
        ),
        ENVELOPE.replace('""', '"\\ud83d"'),
        pytest.param("[" * 5000, id="deep"),
    ],
)
@ours
def test_what_is_not_kombus_does_not_stop_a_worker(channel: Any, database: Database, body: str) -> None:
    declare(channel, "q")
    with Claims(database.url) as claims:
        claims.queue("q").add(Message(body, jms_type="kombu", priority=9))
        publish(channel, "task", routing_key="q")

        assert [one.payload for one in drained(channel, "q")] == ["task"]
        [letter] = claims.queue("ActiveMQ.DLQ").claim()

        assert letter.message.body == body
        assert "kombu" in str(letter.message.properties["dlqDeliveryFailureCause"])
        claims.queue("q").add(Message(body, jms_type="kombu", priority=9))
        publish(channel, "next", routing_key="q")
        assert channel.basic_get("q").payload == "next"


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (ENVELOPE.replace('{"delivery_info": {}}', '{"delivery_info": null}'), ""),
        (ENVELOPE.replace('"delivery_info": {}', '"body_encoding": null'), ""),
        (
            ENVELOPE.replace('""', '"dHdv"').replace(
                '"delivery_info"', '"body_encoding": "BASE64", "delivery_info"'
            ),
            "two",
        ),
    ],
)
@ours
def test_what_is_almost_kombus_is_delivered(
    channel: Any, database: Database, body: str, payload: str
) -> None:
    """kombu itself takes neither null nor upper case, and a worker would end by it."""
    declare(channel, "q")
    publish(channel, "task", routing_key="q")
    with Claims(database.url) as claims:
        claims.queue("q").add(Message(body, jms_type="kombu", priority=9))

        found = drained(channel, "q")

    assert found[0].body in (payload, payload.encode())
    assert found[0].delivery_info["redelivered"] is False
    assert found[1].payload == "task"


def test_damaged_messages_do_not_stop_a_worker(channel: Any, database: Database) -> None:
    declare(channel, "q")
    with Claims(database.url) as claims:
        ids = claims.queue("q").add(*(Message("x" * 50, jms_type="kombu", priority=9) for _ in range(3)))
    blobs = [database.rows(f"SELECT MSG FROM ACTIVEMQ_MSGS WHERE ID = {id_}")[0][0] for id_ in ids]
    for id_, blob, cut in zip(ids, blobs, (4, 30, len(blobs[0]) - 20), strict=True):
        damaged = bytes(blob[:cut]) + b"\xff" * (len(blob) - cut)
        literal = f"'\\x{damaged.hex()}'" if "postgresql" in database.url else f"X'{damaged.hex()}'"
        database.execute(f"UPDATE ACTIVEMQ_MSGS SET MSG = {literal} WHERE ID = {id_}")
    for number in range(3):
        publish(channel, f"{number}", routing_key="q")

    found: list[Any] = []
    while len(found) < 3:
        found += drained(channel, "q")

    assert [one.payload for one in found] == ["0", "1", "2"]
    moved = database.rows("SELECT ID FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://ActiveMQ.DLQ'")
    assert len(moved) == 3


@pytest.mark.parametrize("case", bad_messages.CASES)
def test_a_bad_message_does_not_stop_a_worker(channel: Any, database: Database, case: str) -> None:
    declare(channel, "q")
    with Claims(database.url) as claims:
        bad_messages.add(claims, database, "q", case)
    publish(channel, "good", routing_key="q")

    found = drained(channel, "q")
    while found[-1].body not in ("good", b"good"):
        with contextlib.suppress(ValueError):
            _ = found[-1].payload
        found[-1].ack()
        found += drained(channel, "q")


def test_a_task_for_later_whose_return_fails_is_returned_in_the_end(
    channel: Any, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(channel, "q")
    eta = "2099-01-01T00:00:00+00:00"
    publish(channel, "later", routing_key="q", headers={"eta": eta})
    release, failures = ClaimQueue.release, iter([StoreUnavailable("away")])

    def fails_once(self: Any, *claims: Any, **options: Any) -> None:
        for error in failures:
            raise error
        release(self, *claims, **options)

    monkeypatch.setattr(ClaimQueue, "release", fails_once)
    with pytest.raises(StoreUnavailable):
        drained(channel, "q", timeout=0)

    assert other.basic_get("q").payload == "later"


@ours
def test_kombus_messages_are_text_for_other_clients(channel: Any, database: Database) -> None:
    declare(channel, "q")
    publish(channel, {"a": "ü"}, routing_key="q", correlation_id="c", priority=7)
    with Claims(database.url) as claims:
        [claim] = claims.queue("q").claim()

    assert (claim.message.priority, claim.message.correlation_id) == (7, "c")
    assert '"content-type": "application/json"' in str(claim.message.body)


@ours
def test_an_empty_queue_times_out(channel: Any) -> None:
    declare(channel, "q")
    with pytest.raises(socket.timeout):
        drained(channel, "q", timeout=0)


@ours
def test_the_connections_of_a_process_share_their_claims(connect: Connect, database: Database) -> None:
    one, two = connect(), connect()
    one.connect()
    two.connect()
    assert len(database.rows("SELECT ID FROM JDBCSTORE_CLAIM_SESSIONS")) == 1

    one.close()
    declare(two.channel(), "q")
    two.close()
    assert database.rows("SELECT ID FROM JDBCSTORE_CLAIM_SESSIONS") == []


def test_a_child_process_has_claims_of_its_own(channel: Any, connect: Connect) -> None:
    declare(channel, "q")
    child = os.fork()
    if not child:
        try:
            # As Celery does with the connections that it inherits.
            channel.connection.client.close()
            publish(connect().channel(), "of the child", routing_key="q")
        finally:
            os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)

    assert [one.payload for one in drained(channel, "q")] == ["of the child"]


@ours
def test_too_many_redeliveries_are_dead_letters_if_wanted(connect: Connect) -> None:
    channel = connect(max_redeliveries=1, dead_letters="dead").channel()
    declare(channel, "q")
    declare(channel, "dead")
    publish(channel, "1", routing_key="q")

    for _ in range(2):
        channel.basic_get("q").requeue()

    assert channel.basic_get("q") is None
    assert channel.basic_get("dead").payload == "1"


@ours
def test_the_password_is_not_shown() -> None:
    connection = kombu.Connection("jdbcstore+postgresql://user:secret@localhost/mq")

    assert "secret" not in repr(connection)
    assert connection.transport.driver_type == "jdbcstore"
    assert isinstance(connection.transport, plugin.Transport)


@ours
def test_a_database_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL, MySQL"):
        kombu.Connection("jdbcstore+oracle+oracledb://user@localhost/?service_name=mq").connect()


@pytest.mark.slow
@pytest.mark.backends("postgresql")
def test_an_idle_consumer_asks_at_most_once_a_second(server: Server) -> None:
    url = server.url.render_as_string(hide_password=False)
    server.execute_as_administrator(f"ALTER DATABASE {server.url.database} SET log_statement = 'all'")

    def looks() -> int:
        return len(re.findall("execute [^:]*: WITH found", server.log.read_text()))

    def wait(client: kombu.Connection, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            client.drain_events(timeout=seconds)

    with kombu.Connection(f"jdbcstore+{url}") as client, client.channel() as channel:
        declare(channel, "idle")
        with kombu.Consumer(channel, [kombu.Queue("idle")], auto_declare=False, callbacks=[print]):
            while looks() < 7:
                wait(client, 0.5)
            begin, before = time.monotonic(), looks()
            for _ in range(4):
                wait(client, 1.0)
            asked, seconds = looks() - before, time.monotonic() - begin

    assert 1 <= asked <= seconds + 1


@pytest.mark.slow
@pytest.mark.backends("postgresql")
def test_what_the_database_did_not_hear_of_is_acknowledged_by_the_next_connection(server: Server) -> None:
    url = server.url.render_as_string(hide_password=False)

    def acquire() -> SharedClaims:
        return open_claims.acquire(url, 600.0, -1, None, "")

    with Claims(url) as others:
        others.queue("ORDERS").add(Message("x"))
    shared = acquire()
    queue = shared.queue("ORDERS")
    [claim] = queue.claim()
    server.stop()
    shared.acknowledger.acknowledge(queue, claim)
    open_claims.release(shared)
    server.start()
    again = wait_until(lambda: _attempt(acquire), what="that the server answers")
    assert again is not None
    wait_until(lambda: again.queue("ORDERS").count() == (0, 0), what="that the message is removed")
    open_claims.release(again)

    assert again is shared
    # A little later than the removal, the acknowledger knows that the server answers again.
    wait_until(lambda: _is_closed(queue), what="that the claims without users are closed")


def _is_closed(queue: ClaimQueue) -> bool:
    try:
        queue.claim()
    except StoreClosed:
        return True
    return False


@pytest.mark.backends("sqlite")
def test_a_connection_that_outlives_the_claims_is_closed_at_once(database: Database) -> None:
    """As when all were closed first, or in a child process, where no thread acknowledges."""
    shared = open_claims.acquire(database.url, 600.0, -1, None, "")
    queue = shared.queue("ORDERS")
    shared.claims.queue("ORDERS").add(Message("x"))
    [claim] = queue.claim()
    shared.acknowledger.acknowledge(queue, claim)
    assert shared.finish()
    open_claims.close()
    released = threading.Thread(target=open_claims.release, args=(shared,), daemon=True)
    released.start()
    released.join(60.0)
    assert not released.is_alive()


def _attempt(acquire: Callable[[], SharedClaims]) -> SharedClaims | None:
    try:
        return acquire()
    except StoreUnavailable:
        return None


@ours
def test_a_process_forks_while_its_threads_write(database: Database) -> None:
    url = f"jdbcstore+{database.url}"
    with kombu.Connection(url) as connection:
        queue = connection.SimpleQueue("ORDERS")
        stop = threading.Event()

        def write() -> None:
            other = connection.transport.shared.queue("OTHER")
            while not stop.is_set():
                other.add(*(Message("x") for _ in range(20)))

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                children = [_in_child(lambda: _put(url)) for _ in range(5)]
                codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            finally:
                stop.set()
            writing.result()
        assert codes == [0] * 5
        for _ in range(5):
            queue.get(timeout=180.0).ack()
        queue.close()


def _put(url: str) -> None:
    with kombu.Connection(url) as connection, connection.SimpleQueue("ORDERS") as queue:
        queue.put("from the child")


def _in_child(work: Callable[[], None]) -> int:
    """The number of a child process, whose exit code is 0 if this was done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads
        child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


@ours
def test_a_header_is_the_key_of_a_message(connect: Connect) -> None:
    connection = connect(key_header="tenant")
    channel = connection.channel()
    declare(channel, "q")
    for body, tenant in (("a0", "a"), ("a1", "a"), ("b0", 7), ("c0", None)):
        headers = {} if tenant is None else {"tenant": tenant}
        publish(channel, body, routing_key="q", headers=headers)
    connection.transport.shared.claims.queue("q").flow.share(claims=1)

    found = drained(channel, "q")

    assert sorted(one.payload for one in found) == ["a0", "b0", "c0"]
    for one in found:
        one.ack()
    [again] = drained(channel, "q")
    assert again.payload == "a1"
    again.ack()

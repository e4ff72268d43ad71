"""``send``: what is on the command line or in the input is in the store."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from jdbcstore import BodyType, Destination, JdbcStore, Message
from jdbcstore.message.values import Byte, Char, Float, Long, Short
from jdbcstore.testing.polling import wait_until
from tests.cli.conftest import Invoke
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.recordings import exactly

OpenLocal = Callable[[], JdbcStore]


def stored(open_store: OpenLocal, queue: str = "Q") -> list[Message]:
    with open_store() as store:
        return list(store.queue(queue).recover())


def test_every_option_reaches_the_message(invoke: Invoke, local_store: OpenLocal) -> None:
    before_ms = time.time_ns() // 1_000_000
    result = invoke(
        *("send", "queue://Q", "two pints", "--priority", "7", "--ttl", "60", "--correlation-id", "c 1"),
        *("--reply-to", "topic://ANSWERS", "--type", "order", "--property", "table=4"),
    )
    after_ms = time.time_ns() // 1_000_000

    (message,) = stored(local_store)
    assert result.code == 0
    assert result.out == f"sent {message.message_id} to queue://Q\n"
    assert (message.body_type, message.body) == (BodyType.TEXT, "two pints")
    assert message.priority == 7
    assert before_ms <= (message.timestamp_ms or 0) <= after_ms
    assert message.expiration_ms == (message.timestamp_ms or 0) + 60_000
    assert message.correlation_id == "c 1"
    assert message.reply_to == Destination.topic("ANSWERS")
    assert message.jms_type == "order"
    assert message.properties == {"table": "4"}
    assert message.persistent


def test_properties_have_the_types_of_java(invoke: Invoke, local_store: OpenLocal) -> None:
    given = {
        "plain=1": "1",
        "empty=": "",
        "equals=a=b": "a=b",
        "s:string=x": "x",
        "b:boolean=True": True,
        "y:byte=-128": Byte(-128),
        "h:short=7": Short(7),
        "i:int=-2147483648": -(1 << 31),
        "l:long=5": Long(5),
        "f:float=3.14": Float(3.14),
        "d:double=NaN": float("nan"),
        "c:char=ż": Char("ż"),
    }
    options = [part for property_ in given for part in ("--property", property_)]

    assert invoke("send", "Q", "x", *options).code == 0

    (message,) = stored(local_store)
    expected = {text.split("=")[0].split(":")[0]: value for text, value in given.items()}
    assert exactly(message.properties) == exactly(expected)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--property", "novalue"], "'novalue' is not a property"),
        (["--property", "=5"], "'=5' is not a property"),
        (["--property", "a:money=5"], "'money' is not a property type"),
        (["--property", "a:int=five"], "'five' is not a valid int"),
        (["--property", "a:int=2147483648"], "'2147483648' is not a valid int"),
        (["--property", "a:byte=128"], "'128' is not a valid byte"),
        (["--property", "a:boolean=yes"], "'yes' is not a valid boolean"),
        (["--property", "a:char=ab"], "'ab' is not a valid char"),
        (["--priority", "10"], "10"),
        (["--ttl", "0"], "0"),
        (["--count", "0"], "0"),
        (["--reply-to", "queue://"], "needs a name"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_wrong_option_sends_nothing(
    invoke: Invoke, local_store: OpenLocal, options: list[str], complaint: str
) -> None:
    result = invoke("send", "Q", "x", *options)

    assert result.code == 2
    assert complaint in result.err
    assert len(result.err.splitlines()) == 1
    assert stored(local_store) == []


@pytest.mark.parametrize(
    ("destination", "complaint"),
    [("", "needs a name"), ("queue://" + "x" * 250, "shorter name"), ("A,B", "several destinations")],
)
def test_a_destination_that_cannot_be(invoke: Invoke, destination: str, complaint: str) -> None:
    result = invoke("send", destination, "x")

    assert result.code == 2
    assert complaint in result.err


def test_count_sends_as_many_messages(invoke: Invoke, local_store: OpenLocal) -> None:
    result = invoke("send", "Q", "x", "--count", "1234", "--json")

    messages = stored(local_store)
    with local_store() as store:
        assert store.queue("Q").message_count() == 1234
    assert result.lines == [
        {
            "destination": "queue://Q",
            "sent": 1234,
            "first_id": 1,
            "last_id": 1234,
            "first_message_id": str(messages[0].message_id),
            "last_message_id": result.json["last_message_id"],
        }
    ]


def test_a_message_without_body(invoke: Invoke, local_store: OpenLocal) -> None:
    invoke("send", "Q")

    assert [message.body_type for message in stored(local_store)] == [BodyType.MESSAGE]


def test_each_line_of_the_input_is_a_message(local: CommandLine, local_store: OpenLocal) -> None:
    result = local("send", "Q", "-", stdin="one\n\nzażółć 🚀\r\n last".encode())

    assert [message.body for message in stored(local_store)] == ["one", "", "zażółć 🚀", " last"]
    assert result.out == "sent 4 messages to queue://Q\n"


def test_lines_are_stored_while_more_may_come(local: CommandLine, local_store: OpenLocal) -> None:
    local_store().close()
    with local.start("send", "Q", "-", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as sending:
        assert sending.stdin is not None
        for line in (b"first\n", b"second\n"):
            sending.stdin.write(line)
            sending.stdin.flush()
        wait_until(lambda: [message.body for message in stored(local_store)] == ["first", "second"])
        assert sending.poll() is None
        sending.stdin.close()
    assert sending.returncode == 0


def test_input_that_is_no_text(local: CommandLine, local_store: OpenLocal) -> None:
    result = local.run("send", "Q", "-", stdin=b"good\n\xff\xfe\nlater\n")

    assert result.code == 2
    assert "line 2 of the input is not UTF-8" in result.err
    assert "1 message stored before the error" in result.err
    assert [message.body for message in stored(local_store)] == ["good"]


def test_lines_are_not_counted(invoke: Invoke) -> None:
    assert invoke("send", "Q", "-", "--count", "2").code == 2


def test_what_is_sent_is_browsed_and_consumed(cli: CommandLine, database: Database) -> None:
    body = "zażółć 🚀\x00 end"
    cli("send", "queue://ORDERS ü", "-", stdin=body.encode())

    browsed = cli("browse", "ORDERS ü", "--json").json
    consumed = cli("consume", "queue://ORDERS ü", "--json").json

    assert browsed == consumed
    assert browsed["body"] == body
    assert browsed["destination"] == "queue://ORDERS ü"
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]


@pytest.mark.parametrize(
    ("destination", "complaint"),
    [
        ("topic:NEWS", "write topic://NEWS"),
        ("QUEUE://ORDERS", "write queue://ORDERS"),
        ("temp-queue://x", "is temporary"),
        ("ORDERS.>", "is a pattern"),
        ("topic://NEWS.*.EU", "is a pattern"),
        ("A,B", "names several destinations; run the command once for each"),
    ],
)
def test_nothing_is_sent_where_nobody_would_look(invoke: Invoke, destination: str, complaint: str) -> None:
    assert invoke("init").code == 0

    result = invoke("send", destination, "x")

    assert result.code == 2
    assert complaint in result.err
    assert invoke("status", "--json").json["destinations"] == []


def test_stomp_names_are_understood(invoke: Invoke) -> None:
    assert invoke("send", "/queue/ORDERS", "x").out.endswith(" to queue://ORDERS\n")
    assert invoke("send", "/topic/NEWS", "x").out.endswith(" to topic://NEWS\n")

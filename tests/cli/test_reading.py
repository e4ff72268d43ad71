"""``browse`` and ``consume``: everything is shown, and gone only after it was."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore import BodyType, JdbcStore, Message
from jdbcstore.message.values import Float
from tests.cli.conftest import Invoke
from tests.support.cli.command_line import CommandLine
from tests.support.cli.damage import damage

OpenLocal = Callable[[], JdbcStore]


def add(open_store: OpenLocal, *messages: Message, queue: str = "Q") -> None:
    with open_store() as store:
        store.queue(queue).add_messages(messages)


def left(open_store: OpenLocal, queue: str = "Q") -> list[object]:
    with open_store() as store:
        return [message.body for message in store.queue(queue).recover()]


def test_bodies_and_properties_as_json(invoke: Invoke, local_store: OpenLocal) -> None:
    nested = {"list": [1, 2.5, None, True], "map": {"bytes": b"\xff\x00"}, "nan": float("nan")}
    add(
        local_store,
        Message("half \ud800"),
        Message(b"\x00\xff"),
        Message({"inf": float("-inf"), "float": Float(1.5), "bytes": b"a"}),
        Message([b"x", "y", 3]),
        Message(b"\xac\xed", body_type=BodyType.OBJECT),
        Message(None),
        Message(None, body_type=BodyType.TEXT),
        Message(None, body_type=BodyType.BLOB, remote_blob_url="http://files/1"),
        Message("x", properties=nested, group_id="g", group_sequence=3, user_id="u"),
    )

    result = invoke("browse", "Q", "--json")

    assert result.code == 0
    assert result.out.isascii()
    assert [(line["type"], line["body"]) for line in result.lines[:-1]] == [
        ("text", "half \ud800"),
        ("bytes", "AP8="),
        ("map", {"inf": "-Infinity", "float": 1.5, "bytes": "YQ=="}),
        ("stream", ["eA==", "y", 3]),
        ("object", "rO0="),
        ("message", None),
        ("text", None),
        ("blob", "http://files/1"),
    ]
    assert result.lines[-1]["properties"] == {
        "list": [1, 2.5, None, True],
        "map": {"bytes": "/wA="},
        "nan": "NaN",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": 3,
        "JMSXUserID": "u",
    }


def test_a_table_for_people(invoke: Invoke, local_store: OpenLocal) -> None:
    add(local_store, *(Message(f"order {number}", properties={"n": number}) for number in range(250)))

    lines = invoke("browse", "Q").out.splitlines()

    assert len(lines) == 251
    assert lines[0].split() == ["id", "type", "priority", "timestamp", "properties", "body"]
    assert lines[250].split()[0] == "250"
    assert '{"n": 249}' in lines[250]
    assert "order 249" in lines[250]


@pytest.mark.parametrize("command", ["browse", "consume"])
def test_bytes_that_are_text_are_shown_as_text(invoke: Invoke, local_store: OpenLocal, command: str) -> None:
    with local_store() as store:
        for body in ("zwölf".encode(), b"\x00\xff"):
            for _ in range(2):
                store.queue("Q").add_message(Message(body))
    more = ("--count", "2") if command == "consume" else ()
    shown = invoke(command, "Q", "--hex", *more)
    assert "7a 77 c3 b6 6c 66" in shown.out
    assert "zwölf" not in shown.out
    shown = invoke(command, "Q", *more)
    assert ("zwölf" in shown.out, "AP8=" in shown.out) == (command == "browse", True)


def test_nothing_in_a_message_steers_the_terminal(invoke: Invoke, local_store: OpenLocal) -> None:
    hostile = "a\x1b[2Jb\rc\x9bd\u202ee\ud800"
    add(local_store, Message(hostile, correlation_id=hostile, properties={hostile: hostile}))

    for command in ("browse", "consume"):
        shown = invoke(command, "Q").out
        assert r"a\x1b[2Jb\rc\x9bd\u202ee\ud800" in shown
        assert not {"\x1b", "\r", "\x9b", "\u202e", "\ud800"} & {*shown}


def test_limit_counts_what_is_shown(invoke: Invoke, local_store: OpenLocal, local_url: str) -> None:
    add(local_store, *(Message(f"{number}") for number in range(150)))
    damage(local_url, 1)

    result = invoke("browse", "Q", "--json", "--limit", "120")

    assert [line["body"] for line in result.lines] == [f"{number}" for number in range(1, 121)]
    assert result.code == 7


def test_a_selector_chooses(invoke: Invoke, local_store: OpenLocal, local_url: str) -> None:
    numbered = (
        Message(f"{number}", properties={"even": number % 2 == 0, "n": number}) for number in range(9)
    )
    add(local_store, *numbered)
    damage(local_url, 9, b"even", b"\xff\xff\xff\xff")

    result = invoke("browse", "Q", "--json", "--selector", "even AND n > 1", "--limit", "2")
    none = invoke("browse", "Q", "--selector", "JMSPriority > 7")
    corrupt = invoke("browse", "Q", "--json", "--selector", "n > 5")
    wrong = invoke("browse", "Q", "--selector", "n > ")

    assert [line["body"] for line in result.lines] == ["2", "4"]
    assert (none.code, none.err) == (0, "jdbcstore: no such messages in queue://Q\n")
    assert ([line["body"] for line in corrupt.lines], corrupt.code) == (["6", "7"], 7)
    assert wrong.code == 2
    assert "at character 5: it ends where" in wrong.err


def test_an_empty_queue(invoke: Invoke, local_store: OpenLocal) -> None:
    local_store().close()

    browsed, consumed = invoke("browse", "Q", "--json"), invoke("consume", "Q", "--json")

    assert (browsed.code, browsed.out) == (0, "")
    assert (consumed.code, consumed.out) == (6, "")
    assert browsed.err == consumed.err == "jdbcstore: no messages in queue://Q\n"


def test_rows_that_do_not_decode_are_reported_and_kept(
    invoke: Invoke, local_store: OpenLocal, local_url: str
) -> None:
    add(local_store, Message("1"), Message("2"), Message("3", properties={"k": "needle"}), Message("4"))
    damage(local_url, 2)
    damage(local_url, 3, find=b"\x09\x00\x06needle", replace=b"\x63\x00\x06needle")

    for command in (["browse", "Q"], ["consume", "Q", "--count", "10"]):
        result = invoke(*command, "--json")
        assert result.code == 7
        assert [line["body"] for line in result.lines] == ["1", "4"]
        assert len(result.err.splitlines()) == 2
        for line, sequence in zip(result.err.splitlines(), (2, 3), strict=True):
            assert line.startswith("jdbcstore: cannot decode a message")
            assert f"ID {sequence} of queue://Q" in line
    with local_store() as store:
        assert store.queue("Q").message_count() == 2


def test_consume_takes_as_many_as_asked(invoke: Invoke, local_store: OpenLocal) -> None:
    add(local_store, *(Message(f"{number}") for number in range(205)))

    one = invoke("consume", "Q", "--json")
    many = invoke("consume", "Q", "--json", "--count", "203")
    rest = invoke("consume", "Q", "--json", "--count", "10")

    assert [line["body"] for line in one.lines] == ["0"]
    assert [line["body"] for line in many.lines] == [f"{number}" for number in range(1, 204)]
    assert [line["body"] for line in rest.lines] == ["204"]
    assert rest.code == 0
    assert left(local_store) == []


def test_consume_for_people_leaves_nothing_out(invoke: Invoke, local_store: OpenLocal) -> None:
    body = "first line\n\tsecond " + "x" * 1000
    add(local_store, Message(body, priority=9, properties={"a": "b" * 300}, jms_type="t"))

    shown = invoke("consume", "Q").out

    for part in (body, "b" * 300, "priority: 9", "jms_type: t", "destination: queue://Q", "id: 1\n"):
        assert part in shown


def test_what_cannot_be_printed_is_not_acknowledged(local: CommandLine, local_store: OpenLocal) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    add(local_store, Message("precious"))

    with Path("/dev/full").open("wb") as full:
        consuming = local.start("consume", "Q", "--json", stdout=full, stderr=subprocess.PIPE)
        _, err = consuming.communicate(timeout=180)

    assert consuming.returncode == 1
    assert b"No space left" in err
    assert b"Traceback" not in err
    assert left(local_store) == ["precious"]


def test_expired_messages_are_browsed_and_not_consumed(invoke: Invoke, local_store: OpenLocal) -> None:
    add(local_store, Message("old", expiration_ms=1), Message("new"))

    browsed = invoke("browse", "Q", "--json")
    consumed = invoke("consume", "Q", "--count", "5", "--json")

    assert [line["body"] for line in browsed.lines] == ["old", "new"]
    assert [line["body"] for line in consumed.lines] == ["new"]
    assert "1 expired message skipped" in consumed.err
    assert left(local_store) == ["old"]


def test_a_reader_that_goes_away(local: CommandLine, local_store: OpenLocal) -> None:
    add(local_store, *(Message("x" * 10_000) for _ in range(50)))

    with local.start("browse", "Q", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as browsing:
        assert browsing.stdout is not None
        assert browsing.stderr is not None
        assert json.loads(browsing.stdout.readline())["id"] == 1
        browsing.stdout.close()
        err = browsing.stderr.read()

    assert browsing.returncode == 141
    assert err == b""


def test_reading_creates_nothing(invoke: Invoke, tmp_path: Path) -> None:
    for command in (["browse", "Q"], ["status"], ["subscriptions"]):
        result = invoke(*command)
        assert result.code == 5
        assert "run jdbcstore init" in result.err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "options",
    [
        ["topic://T"],
        ["topic://T", "--client-id", "c"],
        ["topic://T", "--subscription", "s"],
        ["queue://Q", "--client-id", "c", "--subscription", "s"],
        ["Q", "--count", "0"],
        [],
    ],
)
def test_consume_needs_a_queue_or_a_subscription(invoke: Invoke, options: list[str]) -> None:
    result = invoke("consume", *options)

    assert result.code == 2
    assert len(result.err.splitlines()) == 1

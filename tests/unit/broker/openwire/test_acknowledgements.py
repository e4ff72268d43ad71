"""Acknowledgements that come in a row, read at once: as many as are like the first one."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from jdbcstore import Destination
from jdbcstore.broker.openwire import acknowledgements
from jdbcstore.broker.openwire.acknowledgements import AcknowledgementReader
from jdbcstore.broker.openwire.commands import Throwable, Type, write_command
from jdbcstore.broker.openwire.consumers import AckType
from jdbcstore.broker.openwire.frames import OpenWireFrameReader
from jdbcstore.message.ids import ConnectionId, ConsumerId, LocalTransactionId, MessageId, ProducerId
from jdbcstore.util.core import in_use
from tests.support import ROOT

QUEUE, CONSUMER = Destination.queue("Q"), ConsumerId("c", 1, 1)
PRODUCER, OTHER = ProducerId("c", 1, 1), ProducerId("c", 1, 2)
COUNT = 6
PENDING: Any = {
    100 + number: (f"delivery {number}", MessageId(PRODUCER, number, 7), QUEUE) for number in range(COUNT)
}


def message_id(number: int, producer_id: ProducerId = PRODUCER, text: str | None = None) -> MessageId:
    """As a client repeats it: with the number of the dispatch."""
    return MessageId(producer_id, number, 100 + number, text)


def frame(number: int, version: int, *, is_range: bool, **values: Any) -> bytes:
    last = message_id(number)
    fields = {"destination": QUEUE, "consumer_id": CONSUMER, "last": last, "count": 1, "command_id": number}
    kind = AckType.STANDARD if is_range else AckType.INDIVIDUAL
    fields |= {"ack_type": int(kind), "first": last if is_range else None}
    return write_command(Type.MESSAGE_ACK, version, **(fields | values))


@pytest.fixture(params=["python", "compiled"], autouse=True)
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "compiled":
        if in_use() != "compiled":
            pytest.skip("the core was not compiled")
        return
    monkeypatch.setenv("JDBCSTORE_PURE", "1")
    module = runpy.run_path(str(ROOT / "jdbcstore" / "broker" / "openwire" / "_acknowledged_cy.py"))
    monkeypatch.setattr(acknowledgements, "acknowledged", module["acknowledged"])


def read_in_a_row(
    frames: list[bytes], version: int, pending: Any = PENDING
) -> tuple[list[int], bytes | None]:
    """The numbers of what is covered by the frames after the second one, and the next frame."""
    frame_reader, reader = OpenWireFrameReader(1000), AcknowledgementReader(version)
    frame_reader.feed(b"".join(frames))
    found: dict[int, Any] = {}
    for _ in range(2):  # the first is taken apart
        one = frame_reader.read()
        assert one is not None
        reader.read(one)
        assert found == {}
        found = reader.read_like(one, frame_reader, pending)
    assert all(found[number] == PENDING[number][0] for number in found)
    return [*found], frame_reader.read()


@pytest.mark.parametrize("version", [12, 9])
@pytest.mark.parametrize("is_range", [True, False], ids=["ranges", "individual"])
def test_all_that_come_are_read_at_once(version: int, is_range: bool) -> None:
    frames = [frame(number, version, is_range=is_range) for number in range(COUNT)]
    assert read_in_a_row(frames, version) == ([102, 103, 104, 105], None)
    frames[-1] = frames[-1][:-1]
    assert read_in_a_row(frames, version) == ([102, 103, 104], None)


@pytest.mark.parametrize(
    "values",
    [
        {"response_required": True},
        {"ack_type": int(AckType.POISON)},
        {"ack_type": int(AckType.DELIVERED)},
        {"consumer_id": ConsumerId("c", 1, 2)},
        {"destination": Destination.topic("Q")},
        {"transaction_id": LocalTransactionId(ConnectionId("c"), 1)},
        {"cause": Throwable("java.lang.Exception", "why")},
        {"count": 2},
        {"last": message_id(4, OTHER)},
        {"last": message_id(4, text="t")},
        {"last": MessageId(PRODUCER, 5, 104)},
        {"last": message_id(COUNT)},
        {"first": message_id(3)},
        {"first": message_id(4, OTHER)},
        {"first": message_id(4), "last": message_id(4, OTHER)},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_range", [True, False], ids=["ranges", "individual"])
def test_another_one_is_left(is_range: bool, values: dict[str, Any]) -> None:
    if "last" in values and is_range:
        values = {"first": values["last"]} | values
    frames = [frame(number, 12, is_range=is_range) for number in range(COUNT)]
    frames[4] = frame(4, 12, is_range=is_range, **values)
    assert read_in_a_row(frames, 12) == ([102, 103], frames[4])


@pytest.mark.parametrize(
    "pending", [MessageId(OTHER, 4), MessageId(PRODUCER, 4, 0, "t"), MessageId(PRODUCER, 5)], ids=str
)
def test_one_of_another_message_is_left(pending: MessageId) -> None:
    frames = [frame(number, 12, is_range=False) for number in range(COUNT)]
    found = read_in_a_row(frames, 12, PENDING | {104: ("another delivery", pending, QUEUE)})
    assert found == ([102, 103], frames[4])


def test_a_range_of_several_begins_no_row() -> None:
    frames = [frame(number, 12, is_range=True, first=message_id(0)) for number in range(COUNT)]
    assert read_in_a_row(frames, 12) == ([], frames[2])

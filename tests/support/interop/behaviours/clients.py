"""The libraries that talk to a broker: a raw socket, stomp.py and stompest."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import stomp
from stompest.config import StompConfig
from stompest.error import StompConnectionError, StompProtocolError
from stompest.protocol import StompFrame
from stompest.sync import Stomp

from tests.support.interop.behaviours.conversation import Client, Closed, Refused
from tests.support.stomp import WAIT, Frame, Wire

MakeClient = Callable[[int, str], Client]


def _without_none(**headers: str | None) -> dict[str, str]:
    return {name: value for name, value in headers.items() if value is not None}


def _named(message: Frame, version: str) -> dict[str, str]:
    """How an ACK says which message it means."""
    if version == "1.2":
        return {"id": message.headers["ack"]}
    names = ("message-id", "subscription") if version == "1.1" else ("message-id",)
    return {name: message.headers[name] for name in names}


class RawClient:
    """Frames as they are."""

    def __init__(self, port: int, version: str) -> None:
        self.version = version
        self._wire = Wire(port, version)

    def connect(self, headers: Mapping[str, str]) -> Frame:
        answer = self._wire.connect(headers)
        if answer.command == "ERROR":
            raise Refused(answer)
        return answer

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._wire.write("SEND", {"destination": destination, **headers}, body)

    def subscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        self._wire.write("SUBSCRIBE", {"destination": destination, **headers})

    def unsubscribe(self, subscription: str, receipt: str) -> None:
        self._wire.write("UNSUBSCRIBE", {"id": subscription, "receipt": receipt})

    def acknowledge(self, message: Frame, transaction: str | None, receipt: str) -> None:
        self._decide("ACK", message, transaction, receipt)

    def reject(self, message: Frame, transaction: str | None, receipt: str) -> None:
        self._decide("NACK", message, transaction, receipt)

    def begin(self, transaction: str, receipt: str) -> None:
        self._wire.write("BEGIN", {"transaction": transaction, "receipt": receipt})

    def commit(self, transaction: str, receipt: str) -> None:
        self._wire.write("COMMIT", {"transaction": transaction, "receipt": receipt})

    def abort(self, transaction: str, receipt: str) -> None:
        self._wire.write("ABORT", {"transaction": transaction, "receipt": receipt})

    def disconnect(self, receipt: str) -> None:
        self._wire.write("DISCONNECT", {"receipt": receipt})

    def read(self) -> Frame:
        try:
            return self._wire.read()
        except ConnectionError as closed:
            raise Closed from closed

    def drop(self) -> None:
        self._wire.close()

    def _decide(self, command: str, message: Frame, transaction: str | None, receipt: str) -> None:
        more = _without_none(transaction=transaction, receipt=receipt)
        self._wire.write(command, {**_named(message, self.version), **more})


class StompPyClient:
    """stomp.py, with a class for each version; what its thread receives is queued here."""

    CLASSES: ClassVar = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}

    def __init__(self, port: int, version: str) -> None:
        self.version = version
        options: dict[str, Any] = {
            "host_and_ports": [("127.0.0.1", port)],
            "auto_decode": False,
            "auto_content_length": False,
            "timeout": WAIT,
        }
        self._frames: queue.Queue[Frame | None] = queue.Queue()
        self._options = options

    def connect(self, headers: Mapping[str, str]) -> Frame:
        headers = dict(headers)
        if "heart-beat" in headers:
            one, other = headers.pop("heart-beat").split(",")
            self._options["heartbeats"] = (int(one), int(other))
        self._connection = self.CLASSES[self.version](**self._options)
        self._connection.set_listener("behaviours", self)
        self._connection.connect(headers=headers)
        answer = self.read()
        if answer.command == "ERROR":
            raise Refused(answer)
        return answer

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._connection.send(destination, body, headers=dict(headers))

    def subscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        more = dict(headers)
        self._connection.subscribe(destination, id=more.pop("id"), ack=more.pop("ack"), headers=more)

    def unsubscribe(self, subscription: str, receipt: str) -> None:
        self._connection.unsubscribe(id=subscription, headers={"receipt": receipt})

    def acknowledge(self, message: Frame, transaction: str | None, receipt: str) -> None:
        self._connection.ack(*_named(message, self.version).values(), transaction, receipt)

    def reject(self, message: Frame, transaction: str | None, receipt: str) -> None:
        self._connection.nack(*_named(message, self.version).values(), transaction, receipt)

    def begin(self, transaction: str, receipt: str) -> None:
        self._connection.begin(transaction, {"receipt": receipt})

    def commit(self, transaction: str, receipt: str) -> None:
        self._connection.commit(transaction, {"receipt": receipt})

    def abort(self, transaction: str, receipt: str) -> None:
        self._connection.abort(transaction, {"receipt": receipt})

    def disconnect(self, receipt: str) -> None:
        self._connection.disconnect(receipt)

    def read(self) -> Frame:
        frame = self._frames.get(timeout=WAIT)
        if frame is None:
            raise Closed
        return frame

    def drop(self) -> None:
        transport = self._connection.transport
        if transport.socket is not None:
            transport.disconnect_socket()

    def on_connected(self, frame: Any) -> None:
        self._queue(frame)

    def on_message(self, frame: Any) -> None:
        self._queue(frame)

    def on_receipt(self, frame: Any) -> None:
        self._queue(frame)

    def on_error(self, frame: Any) -> None:
        self._queue(frame)

    def on_receiver_loop_completed(self, _: None) -> None:
        self._frames.put(None)

    def _queue(self, frame: Any) -> None:
        self._frames.put(Frame(frame.cmd, frame.headers, frame.body))


class StompestClient:
    """stompest, whose session knows what it has subscribed to and which receipts it waits for."""

    def __init__(self, port: int, version: str) -> None:
        self.version = version
        self._stomp = Stomp(StompConfig(f"tcp://127.0.0.1:{port}", version=version))

    def connect(self, headers: Mapping[str, str]) -> Frame:
        headers = dict(headers)
        beats = headers.pop("heart-beat", None)
        session = self._stomp.session
        try:
            self._stomp.connect(
                headers=headers,
                versions=[self.version],
                host="localhost",
                heartBeats=None if beats is None else tuple(map(int, beats.split(","))),
                connectTimeout=WAIT,
                connectedTimeout=WAIT,
            )
        except StompProtocolError as refused:
            raise Refused(Frame("ERROR", {"message": str(refused)})) from refused
        beat = f"{session.serverHeartBeat},{session.clientHeartBeat}"
        told = {"session": session.id, "server": session.server, "version": session.version}
        return Frame("CONNECTED", {**_without_none(**told), "heart-beat": beat})

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._stomp.send(destination, body, dict(headers))

    def subscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        self._stomp.subscribe(destination, dict(headers))

    def unsubscribe(self, subscription: str, receipt: str) -> None:
        self._stomp.unsubscribe(("id", subscription), receipt)

    def acknowledge(self, message: Frame, transaction: str | None, receipt: str) -> None:
        self._stomp.ack(self._its_own(message, transaction), receipt)

    def reject(self, message: Frame, transaction: str | None, receipt: str) -> None:
        self._stomp.nack(self._its_own(message, transaction), receipt)

    def begin(self, transaction: str, receipt: str) -> None:
        self._stomp.begin(transaction, receipt)

    def commit(self, transaction: str, receipt: str) -> None:
        self._stomp.commit(transaction, receipt)

    def abort(self, transaction: str, receipt: str) -> None:
        self._stomp.abort(transaction, receipt)

    def disconnect(self, receipt: str) -> None:
        self._stomp.disconnect(receipt)

    def read(self) -> Frame:
        try:
            if not self._stomp.canRead(WAIT):
                raise TimeoutError
            frame = self._stomp.receiveFrame()
        except StompConnectionError as closed:
            raise Closed from closed
        return Frame(frame.command, frame.headers, frame.body)

    def drop(self) -> None:
        with contextlib.suppress(StompConnectionError):
            self._stomp.close()

    def _its_own(self, message: Frame, transaction: str | None) -> StompFrame:
        headers = {**message.headers, **_without_none(transaction=transaction)}
        return StompFrame(message.command, headers, message.body, version=self.version)


LIBRARIES: dict[str, MakeClient] = {
    "socket": RawClient,
    "stomp.py": StompPyClient,
    "stompest": StompestClient,
}

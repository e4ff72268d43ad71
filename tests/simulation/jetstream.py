"""A stream of JetStream that loses answers, elects, and answers from old states; and the connection to it.

What it does is what the servers may do. An append is acknowledged once a quorum has it, so nothing that was
acknowledged is ever gone. It may take effect and its answer be lost, be lost itself, or take effect seconds
later: the client sends what it has kept while it was cut off, and a new leader commits what the one before
had begun. The expected sequence is checked where the append takes effect (``processJetStreamMsg`` of
nats-server 2.9), or by the leader before that, which counts what it has begun
(``checkMsgHeadersPreClusteredProposal`` of 2.15). Reads are answered by who believes to be the leader: one
that is cut off believes it for ten seconds (``lostQuorumInterval``), while the others elect after four, and
a new one of 2.9 may not have applied all yet. A consumer reads what its own server has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from nats.errors import ConnectionClosedError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import (
    APIError,
    NoStreamResponseError,
    NotFoundError,
    ServerError,
    ServiceUnavailableError,
)

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreClosed
from jdbcstore.journal.stream.connection import ANSWER, NatsConnection
from jdbcstore.journal.stream.pieces import OPENING, PieceHead
from tests.simulation.buckets import Bucket, Objects, info
from tests.simulation.scheduler import Process, Task, current, current_process

T = TypeVar("T")

_BUCKETS = ("KV_", "OBJ_")
_WRONG_LAST, _STORE_FAILED, _UNAVAILABLE = 10071, 10077, 10008
_NOTICED = 5.0
"""Seconds until a client knows that it is cut off: two pings without an answer."""
_AWAY = 40.0
"""Seconds after which nobody waits for the servers any more."""
_DEPOSED = 6.0
"""Seconds after which another has the lock of a process that is paused."""
_LATEST = 8.0
"""Seconds after which an append that was under way has taken effect."""
_ELECTED = 0.02
"""The part of the purges after which one that has not applied all leads at once, be it the one of before."""


class View(NamedTuple):
    """What a server has of the stream."""

    first: int = 1
    last: int = 0


class Stream:
    """The stream of one world, on its three servers."""

    def __init__(self, seed: int) -> None:
        self.checks_first = bool(seed & 1)
        """Whether the leader checks the expected sequence before it proposes, as newer servers do."""
        self.max_payload = (1 << 20, 1_500)[seed >> 1 & 1]
        self.exists = False
        self.config = StreamConfig()
        self.now = View()
        self._every: dict[int, bytes] = {}
        """All messages that there ever were: old servers have those that were purged since."""
        self._begun = 0
        """Appends that a leader has begun, and that take effect later."""
        self.is_calm = False
        self.leaderless_until = 0.0
        self._old_until = 0.0
        self._old = View()
        self._old_side = ""
        """The processes whose questions the old leader answers, by the first letters of their names."""
        self._cuts: dict[str, tuple[float, float]] = {}
        """By machine, since when and until when it cannot reach the servers."""
        self.faults: dict[str, deque[str]] = {}
        """By machine, the faults of its next appends."""
        self.buckets: dict[str, Bucket] = {}
        """Streams of keys, and of objects, by their names."""
        self.writers: list[int] = []
        """The processes that have claimed the journal, in order."""
        self._old_at = 0.0
        """When the state of the old leader was the state."""

    # What fails.

    def cut(self, process: Process, seconds: float) -> None:
        """Cut a machine off from the servers."""
        now = current().now
        self._cuts[process.name[:1]] = (now, now + seconds)

    def elect(self, side: str, seconds: float, old: float) -> None:
        """Have no leader for a while; an old one answers one side, for longer or not at all."""
        now = current().now
        self.leaderless_until = now + seconds
        self._old, self._old_side, self._old_until = self.now, side, now + old
        self._old_at = now

    def lag(self, seconds: float) -> None:
        """Have a new leader that has not applied all yet."""
        self._old = View(self.now.first, max(self.now.last - current().chance.randrange(1, 4), 0))
        if self._old.first > self._old.last:
            return
        self._old_side, self._old_until = "*", current().now + seconds
        self._old_at = current().now

    def fail_next(self, process: Process, fault: str) -> None:
        """Let the next append of a machine fail."""
        self.faults.setdefault(process.name[:1], deque()).append(fault)

    def calm(self) -> None:
        """End all faults."""
        self.is_calm = True
        self.leaderless_until = self._old_until = 0.0
        self._cuts.clear()
        self.faults.clear()

    def is_reached(self, process: Process) -> bool:
        """Return whether the servers can be reached."""
        begun, until = self._cuts.get(process.name[:1], (0.0, 0.0))
        return not begun <= current().now < until

    def knows_cut(self, process: Process) -> bool:
        """Return whether the client knows that it is not connected; it comes back a second later."""
        begun, until = self._cuts.get(process.name[:1], (0.0, 0.0))
        return until - begun > _NOTICED and begun + _NOTICED <= current().now < until + 1.0

    def _asks_old(self, process: Process) -> bool:
        return current().now < self._old_until and self._old_side in ("*", process.name[:1])

    # What is done.

    def seen(self, process: Process) -> View:
        """Return what the server has that answers a process."""
        return self._old if self._asks_old(process) else self.now

    def seen_until(self, process: Process) -> float:
        """Return the time of the state of the server that answers a process."""
        return self._old_at if self._asks_old(process) else current().now

    def bucket(self, name: str) -> Bucket:
        """Return a bucket.

        :raises NotFoundError: there is none
        """
        if name not in self.buckets:
            raise NotFoundError(code=404, err_code=10059, description="stream not found")
        return self.buckets[name]

    async def put(
        self,
        connection: SimulatedConnection,
        bucket: str,
        subject: str,
        data: bytes,
        headers: dict[str, str],
    ) -> int:
        """Append a message to a bucket, and return its sequence.

        :raises APIError: it is refused
        :raises NatsTimeoutError: no answer comes
        """
        await self.travel(connection)
        chance = current().chance.random()
        if current().now < self.leaderless_until or (
            self._asks_old(connection.process) and self._old_side != "*"
        ):
            if chance < 0.3:
                self.bucket(bucket).put_later(subject, data, headers)
            await self.silence(connection)
        if chance < 0.02 and not self.is_calm:
            if chance < 0.01:
                self.bucket(bucket).put_later(subject, data, headers)
            await self.silence(connection)
        found = self.bucket(bucket).put(subject, data, headers)
        if chance > 0.98 and not self.is_calm:
            await self.silence(connection)
        await self.travel(connection)
        return found.seq

    def content(self, at: int, view: View) -> bytes:
        """Return a message of a view.

        :raises NotFoundError: it is not there
        """
        if not view.first <= at <= view.last:
            raise NotFoundError(code=404, err_code=10037, description="no message found")
        return self._every[at]

    async def travel(self, connection: SimulatedConnection) -> None:
        """Wait for one way over the network.

        :raises NatsTimeoutError: nothing arrives
        """
        chance = current().chance.random()
        if chance < 0.7 or not self.is_reached(connection.process):
            connection.wait(0.003 * chance if chance < 0.68 or self.is_calm else 0.3 * chance)
        if not self.is_reached(connection.process):
            await self.silence(connection)

    async def silence(self, connection: SimulatedConnection) -> None:
        """Wait for an answer that does not come."""
        connection.wait(ANSWER)
        raise NatsTimeoutError

    async def ask_leader(self, connection: SimulatedConnection) -> View:
        """Ask who answers; return what that one has.

        :raises APIError: there is no leader
        :raises NatsTimeoutError: nobody answers
        """
        await self.travel(connection)
        process = connection.process
        if current().now < self.leaderless_until and not (self._asks_old(process) and self._old_side != "*"):
            if current().chance.random() < 0.5:
                raise ServiceUnavailableError(code=503, err_code=_UNAVAILABLE, description="no leader")
            await self.silence(connection)
        view = self.seen(process)
        await self.travel(connection)
        return view

    async def append(self, connection: SimulatedConnection, message: bytes, expected: int | None) -> int:
        """Append a message, and return its sequence.

        :raises APIError: it is refused
        :raises NatsTimeoutError: no answer comes
        """
        await self.travel(connection)
        process, chance = connection.process, current().chance
        if self._asks_old(process) and self._old_side != "*":
            if self.checks_first and expected is not None and expected != self._old.last:
                raise _wrong_last(self._old.last)
            await self.silence(connection)  # it has no quorum
        if current().now < self.leaderless_until:
            if chance.random() < 0.5:
                raise NoStreamResponseError
            if chance.random() < 0.3:
                self._append_later(message, expected)
            await self.silence(connection)
        faults = self.faults.get(process.name[:1])
        if faults:
            await self._fail(faults.popleft(), connection, message, expected)
        at = self._take(message, expected)
        self._catch_up()
        await self.travel(connection)
        return at

    def _catch_up(self) -> None:
        """End a lag: who has answered that something is decided has applied all before."""
        if self._old_side == "*":
            self._old_until = 0.0

    async def _fail(
        self, fault: str, connection: SimulatedConnection, message: bytes, expected: int | None
    ) -> None:
        chance = current().chance
        match fault:
            case "full":
                raise ServerError(code=503, err_code=_STORE_FAILED, description="maximum bytes exceeded")
            case "failed":
                what = chance.random()
                if what < 0.4:
                    self._append_later(message, expected)
                elif what < 0.7:
                    self._take(message, expected)
                raise ServerError(code=503, err_code=_STORE_FAILED, description="the disk is broken")
            case "late":
                self._append_later(message, expected)
            case "unknown" | "away" | "deposed":
                with suppress(APIError):
                    self._take(message, expected)
                if fault == "away":
                    self.cut(connection.process, _AWAY)
                elif fault == "deposed":
                    connection.process.paused_until = current().now + _DEPOSED
            case _:
                pass
        if chance.random() < 0.3:
            raise ConnectionClosedError
        await self.silence(connection)

    def _take(self, message: bytes, expected: int | None) -> int:
        last = self.now.last + (self._begun if self.checks_first else 0)
        if expected is not None and expected != last:
            raise _wrong_last(last)
        return self._store(message)

    def _store(self, message: bytes) -> int:
        at = self.now.last + 1
        self.now = View(self.now.first, at)
        self._every[at] = message
        head = PieceHead.unpack(message)
        if head.kind == OPENING:
            self.writers.append(head.writer)
        return at

    @property
    def first_number(self) -> int:
        """The first record that is there, or the next one."""
        head = PieceHead.unpack(self._every[min(self.now.first, self.now.last)])
        return head.first_number if head.piece == 0 else head.last_number + 1

    def _append_later(self, message: bytes, expected: int | None) -> None:
        """Let an append take effect later, if its expected sequence is right then."""
        chance = current().chance
        is_begun = chance.random() < 0.5  # else it is still with the client
        if is_begun and self.checks_first and expected not in (None, self.now.last + self._begun):
            return
        self._begun += is_begun
        delay = chance.random() ** 2 * _LATEST
        Task(self._finish, (message, expected, delay, is_begun), process=current().machine).start()

    def _finish(self, message: bytes, expected: int | None, delay: float, is_begun: bool) -> None:
        current().sleep(delay)
        self._begun -= is_begun
        if expected in (None, self.now.last):
            self._store(message)

    async def purge(self, connection: SimulatedConnection, before: int) -> None:
        """Remove the messages before a sequence.

        :raises APIError: there is no leader
        :raises NatsTimeoutError: no answer comes
        """
        await self.ask_leader(connection)
        if self._asks_old(connection.process) and self._old_side != "*":
            await self.silence(connection)  # it has no quorum
        self.now = View(max(self.now.first, min(before, self.now.last + 1)), self.now.last)
        self._catch_up()
        chance = current().chance.random()
        if chance > 1 - _ELECTED and not self.is_calm:
            self.lag(1.0)
        elif chance < 0.05 and not self.is_calm:
            await self.silence(connection)


def _wrong_last(last: int) -> APIError:
    return APIError(code=400, err_code=_WRONG_LAST, description=f"wrong last sequence: {last}")


class JetStream:
    """What the product asks of a JetStream context."""

    def __init__(self, connection: SimulatedConnection) -> None:
        self._connection = connection
        self._stream = connection.stream

    async def publish(
        self,
        subject: str,
        message: bytes,
        *,
        timeout: float,
        stream: str,
        headers: dict[str, str] | None = None,
    ) -> Any:
        del timeout
        if stream in self._stream.buckets:
            at = await self._stream.put(self._connection, stream, subject, message, headers or {})
            return SimpleNamespace(seq=at)
        expected = (headers or {}).get("Nats-Expected-Last-Sequence")
        at = await self._stream.append(self._connection, message, None if expected is None else int(expected))
        return SimpleNamespace(seq=at)

    async def stream_info(self, name: str, subjects_filter: str | None = None) -> Any:
        del subjects_filter
        view = await self._stream.ask_leader(self._connection)
        if name.startswith(_BUCKETS):
            return info(self._stream.bucket(name), self._seen_until)
        if not self._stream.exists:
            raise NotFoundError(code=404, err_code=10059, description="stream not found")
        size = 100 * (view.last + 1 - view.first)
        count = view.last + 1 - view.first
        state = SimpleNamespace(first_seq=view.first, last_seq=view.last, bytes=size, messages=count)
        made = self._stream.config
        return SimpleNamespace(state=state, config=made, created=None, cluster=SimpleNamespace())

    _prefix = ""

    async def _api_request(self, subject: str, wanted: bytes, timeout: float) -> dict[str, Any]:
        del subject, wanted, timeout
        await self._stream.ask_leader(self._connection)
        return {"state": {}}

    @property
    def _seen_until(self) -> float:
        return self._stream.seen_until(self._connection.process)

    async def get_last_msg(self, name: str, subject: str) -> Any:
        await self._stream.ask_leader(self._connection)
        return self._stream.bucket(name).get(subject, self._seen_until)

    async def add_stream(self, config: Any) -> Any:
        await self._stream.ask_leader(self._connection)
        if config.name.startswith(_BUCKETS):
            self._stream.buckets.setdefault(config.name, Bucket(config.max_age))
            return await self.stream_info(config.name)
        if not self._stream.exists:
            made = config.evolve(retention=RetentionPolicy.LIMITS, storage=StorageType.FILE)
            self._stream.exists, self._stream.config = True, made
        return await self.stream_info(config.name)

    async def get_msg(self, name: str, at: int, *, next: bool = False, subject: str = "") -> Any:  # noqa: A002
        view = await self._stream.ask_leader(self._connection)
        if name.startswith(_BUCKETS):
            return self._stream.bucket(name).next(subject, at)
        if next:
            at = max(at, view.first)
        return SimpleNamespace(seq=at, data=self._stream.content(at, view))

    async def purge_stream(self, name: str, *, seq: int = 0, subject: str = "") -> None:
        if name.startswith(_BUCKETS):
            await self._stream.ask_leader(self._connection)
            self._stream.bucket(name).purge(subject)
        else:
            await self._stream.purge(self._connection, seq)

    async def pull_subscribe(self, subject: str, *, stream: str, config: Any) -> Any:
        del subject, stream
        view = await self._stream.ask_leader(self._connection)
        return Reader(self._connection, max(config.opt_start_seq, view.first))

    async def object_store(self, bucket: str) -> Any:
        await self._stream.ask_leader(self._connection)
        self._stream.bucket(f"OBJ_{bucket}")
        return Objects(self._connection, bucket)

    async def create_object_store(self, bucket: str, config: Any) -> Any:
        await self._stream.ask_leader(self._connection)
        self._stream.buckets.setdefault(f"OBJ_{bucket}", Bucket(config.ttl))
        return await self.object_store(bucket)


class Reader:
    """A pull consumer, on one server."""

    def __init__(self, connection: SimulatedConnection, at: int) -> None:
        self._connection = connection
        self._at = at

    async def fetch(self, count: int, timeout: float) -> list[Any]:
        """Return some messages; as many as there are."""
        stream, chance = self._connection.stream, current().chance.random()
        await stream.travel(self._connection)
        view = stream.seen(self._connection.process)
        self._at = max(self._at, view.first)
        count = min(count, view.last + 1 - self._at)
        if count <= 0 or (chance < 0.05 and not stream.is_calm):  # it ended with its server
            self._connection.wait(timeout)
            raise NatsTimeoutError
        found = [_Message(at, stream.content(at, view)) for at in range(self._at, self._at + count)]
        self._at += count
        if chance > 0.95 and not stream.is_calm:  # the first were sent to a connection that was lost
            return found[len(found) // 2 :]
        return found


class _Message:
    def __init__(self, at: int, data: bytes) -> None:
        self.data = data
        self.metadata = SimpleNamespace(sequence=SimpleNamespace(stream=at))


class SimulatedConnection(NatsConnection):
    """The product's connection, without its loop: what would run there runs in the thread that asks."""

    stream: Stream
    """The one of the world that runs."""

    def __init__(self, config: JournalConfig) -> None:
        self.place = config.place
        self.process = current_process()
        self._config = config
        self._trouble = self._denied = None
        self._is_closed = False
        self._client: Any = SimpleNamespace(_server_info={"jetstream": True})
        self.js: Any = JetStream(self)
        if not self.stream.is_reached(self.process):
            self.wait(ANSWER)
            raise self.unavailable(NatsTimeoutError())

    def wait(self, seconds: float) -> None:
        """Wait, unless it is closed meanwhile.

        :raises StoreClosed: it is closed
        """
        current().sleep(seconds)
        if self._is_closed:
            raise StoreClosed

    @property
    def is_connected(self) -> bool:
        return not self.stream.knows_cut(self.process)

    @property
    def max_payload(self) -> int:
        return self.stream.max_payload

    @property
    def version(self) -> tuple[int, int, int]:
        return (2, 15, 0) if self.stream.checks_first else (2, 9, 0)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            work.close()
            raise StoreClosed
        try:
            work.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError("nothing suspends here")

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do nothing: only readers are ended so."""

    def close(self) -> None:
        self._is_closed = True


class SimulatedLoop:
    """The module ``asyncio``, for the product's modules of the stream."""

    @staticmethod
    async def sleep(seconds: float) -> None:
        current().sleep(seconds)

    @staticmethod
    async def wait_for(work: Coroutine[Any, Any, T], timeout: float) -> T:
        del timeout
        return await work

"""The host of a broker, in an asyncio program of one's own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import jdbcstore
from jdbcstore import Configuration, Destination, JdbcStore, Message, StoreConfig
from jdbcstore.broker.cursors.store import StoreCursor
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.process.host import Addresses, BrokerHost
from jdbcstore.broker.process.network import NetworkWatch
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.broker import Address, BrokerConfig, ConnectorConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import (
    CustomLockerConfig,
    LeaseLockerIOExceptionHandlerConfig,
    SharedFileLockerConfig,
)
from jdbcstore.errors import (
    ConfigurationError,
    LockLost,
    NotMaster,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.lockers import mastership
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.stores.io_exceptions import IOExceptionHandler
from jdbcstore.util.clock import SystemClock
from tests.support.broker.frames import Stomp
from tests.support.broker.managed import ALICE
from tests.support.ports import free_port

WAIT = 180.0
HERE = ConnectorConfig(uri="stomp://127.0.0.1:0")


def configuration(folder: Path, **broker: object) -> Configuration:
    return Configuration(
        data_source=DataSourceConfig(url=f"sqlite:///{folder}/mq.db"),
        store=StoreConfig(cleanup_period=0.0),
        locker=SharedFileLockerConfig(directory=str(folder)),
        io_exception_handler=LeaseLockerIOExceptionHandlerConfig(resume_check_sleep_period=0.2),
        broker=BrokerConfig(**{"connectors": (HERE,), "health": "127.0.0.1:0", **broker}),  # type: ignore[arg-type]
    )


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT):
            await main()

    asyncio.run(bounded())


async def readiness(host: BrokerHost) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{host.health_address}/ready") as answer,
    ):
        return answer.status, (await answer.text()).strip()


def port_of(host: BrokerHost) -> int:
    [(scheme, address)] = host.addresses
    assert scheme == "stomp"
    return address.port


def test_it_serves_and_gives_the_lock_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with BrokerHost(configuration(tmp_path)) as host:
            assert host.condition.serves
            assert await readiness(host) == (200, "ready")
            async with Stomp(port_of(host)) as client:
                await client.send("/queue/A", "two pints")
            with pytest.raises(NotMaster):
                jdbcstore.open(configuration(tmp_path), lock_timeout=0.0)
        assert host.addresses == ()
        assert host.condition.state == "stopping"

    run(main)
    with jdbcstore.open(configuration(tmp_path), lock_timeout=0.0) as store:
        assert [message.body for message in store.queue("A").recover()] == ["two pints"]


def test_it_is_not_ready_once_a_stop_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    close = IOExceptionHandler.close

    def hanging(handler: IOExceptionHandler) -> None:
        released.wait(WAIT)
        close(handler)

    monkeypatch.setattr(IOExceptionHandler, "close", hanging)

    async def main() -> None:
        async with BrokerHost(configuration(tmp_path)) as host:
            stopping = asyncio.create_task(host.stop())
            await asyncio.sleep(0)
            assert await readiness(host) == (503, "stopping")
            released.set()
            await stopping

    run(main)


def test_a_slave_waits_and_follows(tmp_path: Path) -> None:
    async def main() -> None:
        waiting, ready = asyncio.Event(), asyncio.Event()
        seen: list[Addresses] = []

        def tell_ready(addresses: Addresses) -> None:
            seen.append(addresses)
            ready.set()

        async with BrokerHost(configuration(tmp_path)) as master:
            slave = BrokerHost(
                configuration(tmp_path), on_waiting=lambda _: waiting.set(), on_ready=tell_ready
            )
            await slave.start()
            await waiting.wait()
            code, text = await readiness(slave)
            assert (code, text.partition(":")[0]) == (503, "waiting for another broker")
            assert "holds the lock" in text
            assert slave.addresses == ()
            assert await readiness(master) == (200, "ready")
        await ready.wait()
        assert seen == [slave.addresses]
        assert await readiness(slave) == (200, "ready")
        await slave.stop()

    run(main)


def test_a_slave_may_say_that_it_is_none(tmp_path: Path) -> None:
    async def main() -> None:
        waiting, ready = asyncio.Event(), asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        connector = ConnectorConfig(uri=f"stomp://127.0.0.1:{port}")
        async with BrokerHost(configuration(tmp_path)):
            slave = BrokerHost(
                configuration(tmp_path, answer_as_slave=True, connectors=(connector,)),
                on_waiting=lambda _: waiting.set(),
                on_ready=lambda _: ready.set(),
            )
            await slave.start()
            await waiting.wait()
            with pytest.raises(AssertionError, match=r"ERROR(.|\n)*not the master"):
                async with Stomp(port):
                    pass
        await ready.wait()
        async with Stomp(port) as client:
            await client.send("/queue/A", "two pints")
        await slave.stop()

    run(main)


def test_a_slave_is_stopped_while_it_waits(tmp_path: Path) -> None:
    async def main() -> None:
        waiting = asyncio.Event()
        async with BrokerHost(configuration(tmp_path)):
            slave = BrokerHost(configuration(tmp_path), on_waiting=lambda _: waiting.set())
            await slave.start()
            await waiting.wait()
            await slave.stop()
            with pytest.raises(StoreClosed, match="stopped before it began to serve"):
                await slave.ready()
            await slave.ended()
        # Nobody of it goes on waiting, and takes the lock in the end.
        async with BrokerHost(configuration(tmp_path)):
            pass

    run(main)


def test_the_connectors_pause_while_the_database_is_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with BrokerHost(configuration(tmp_path)) as host:
            port = port_of(host)
            master = host.master
            assert master is not None
            async with Stomp(port) as client:
                await client.send("/queue/A", "first")
                await client.subscribe("/queue/A", ack="client")
                assert await client.message() == "first"
                with pytest.raises(jdbcstore.StoreError, match="connectors are stopped"):
                    master._on_store_error(StoreUnavailable("pulled"))
                await client.closed()
            await host.ready()
            assert port_of(host) == port
            async with Stomp(port) as client:
                await client.subscribe("/queue/A", ack="client")
                assert await client.message() == "first"

    run(main)


def test_losing_the_lock_ends_it(tmp_path: Path) -> None:
    async def main() -> None:
        host = BrokerHost(configuration(tmp_path))
        await host.start()
        await host.ready()
        _lose(host)
        with pytest.raises(LockLost):
            await host.ended()
        assert host.addresses == ()

    run(main)


@pytest.mark.parametrize("where", ["arrive", "turn"])
def test_an_error_of_its_own_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Nobody is told that a message is stored which it cannot deliver; the next broker does."""

    def fails(*_arguments: object) -> None:
        raise RuntimeError("a defect")

    async def main() -> None:
        async with BrokerHost(configuration(tmp_path)) as host, Stomp(port_of(host)) as client:
            await client.send("/queue/A", "one")
            with monkeypatch.context() as broken:
                broken.setattr(Queue, where, fails)
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                    await client.send("/queue/A", "two")
                    await client.subscribe("/queue/A")
                    pytest.fail(f"consumed {await client.message()}")
                with pytest.raises(RuntimeError, match="a defect"):
                    await host.ended()
        async with BrokerHost(configuration(tmp_path)) as host, Stomp(port_of(host)) as client:
            await client.subscribe("/queue/A")
            assert [await client.message(), await client.message()] == ["one", "two"]

    run(main)


def test_an_error_with_a_page_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored before it began, and cannot be put into the window."""

    def fails(*_arguments: object) -> None:
        raise RuntimeError("a defect")

    async def main() -> None:
        async with BrokerHost(configuration(tmp_path)) as host, Stomp(port_of(host)) as client:
            await client.send("/queue/A", "one")
        with monkeypatch.context() as broken:
            broken.setattr(StoreCursor, "_add_page", fails)
            async with BrokerHost(configuration(tmp_path)) as host, Stomp(port_of(host)) as client:
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                    await client.subscribe("/queue/A")
                    pytest.fail(f"consumed {await client.message()}")
                with pytest.raises(RuntimeError, match="a defect"):
                    await host.ended()
        async with BrokerHost(configuration(tmp_path)) as host, Stomp(port_of(host)) as client:
            await client.subscribe("/queue/A")
            assert await client.message() == "one"

    run(main)


def test_or_makes_it_a_slave(tmp_path: Path) -> None:
    async def main() -> None:
        ready: asyncio.Queue[Addresses] = asyncio.Queue()
        host = BrokerHost(configuration(tmp_path, become_slave=True), on_ready=ready.put_nowait)
        await host.start()
        await ready.get()
        _lose(host)
        await ready.get()
        async with Stomp(port_of(host)) as client:
            await client.send("/queue/A", "after")
        await host.stop()
        await host.ended()

    run(main)


class Unrenewed(AbstractLocker):
    """A lock whose database fails or does not answer, once the test says so, until it is taken again."""

    trouble = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._asked, self._aborted = threading.Event(), threading.Event()

    def do_start(self, max_wait: float) -> bool:  # noqa: ARG002
        type(self).trouble = ""
        self._asked.clear()
        return True

    def do_stop(self) -> None: ...

    def keep_alive(self) -> bool:
        if not self.trouble:
            return True
        if self._asked.is_set():
            return False
        self._asked.set()
        if self.trouble == "fails":
            raise StoreUnavailable("no route to it")
        return self._aborted.wait(WAIT)

    def abort(self) -> None:
        self._aborted.set()

    @property
    def held_until(self) -> float:
        if self._asked.is_set() and self.trouble == "is silent":
            return float("-inf")
        return self.clock.monotonic() + 0.05


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [("fails", "no route to it"), ("is silent", "the database of the lock does not answer")],
)
def test_a_lock_lost_with_its_database(
    trouble: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The lock may be lost before a check of the store has failed; the database is the reason."""
    monkeypatch.setattr(mastership, "_SILENCE", 0.0)
    locker = CustomLockerConfig(locker_class=f"{__name__}:Unrenewed", lock_keep_alive_period=0.05)
    made = replace(configuration(tmp_path, become_slave=True), locker=locker)

    async def main() -> None:
        ready: asyncio.Queue[Addresses] = asyncio.Queue()
        host = BrokerHost(made, on_ready=ready.put_nowait)
        await host.start()
        await ready.get()
        Unrenewed.trouble = trouble
        await ready.get()
        await host.stop()
        await host.ended()

    caplog.set_level(logging.INFO, logger="jdbcstore.broker.condition")
    run(main)
    states = [record.getMessage() for record in caplog.records if record.name == "jdbcstore.broker.condition"]
    assert f"database unreachable: {reason}" in states[1]
    assert "stopping" not in " ".join(states[:-1])


class Fleeting(AbstractLocker):
    """A lock that is lost at once, the first time."""

    starts = 0

    def do_start(self, max_wait: float) -> bool:  # noqa: ARG002
        type(self).starts += 1
        return True

    def do_stop(self) -> None: ...

    def keep_alive(self) -> bool:
        return True

    @property
    def held_until(self) -> float:
        return float("inf") if type(self).starts > 1 else float("-inf")


def test_or_while_it_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fleeting, "starts", 0)
    locker = CustomLockerConfig(locker_class=f"{__name__}:Fleeting")

    async def main() -> None:
        journal = JournalConfig(directory=str(tmp_path / "journal"), journal_shared=True)  # to be recovered
        made = replace(configuration(tmp_path, become_slave=True), locker=locker, journal=journal)
        async with BrokerHost(made) as host, Stomp(port_of(host)) as client:
            await client.send("/queue/A", "after")
        assert Fleeting.starts == 2

    run(main)


class Wavering(AbstractLocker):
    """A lock that another has, then nobody can ask for, then another has again."""

    starts = 0

    def do_start(self, max_wait: float) -> bool:  # noqa: ARG002
        type(self).starts += 1
        if type(self).starts == 2:
            raise StoreUnavailable("not now")
        return type(self).starts > 3

    def do_stop(self) -> None: ...

    def keep_alive(self) -> bool:
        return True

    def is_final(self, error: StoreError) -> bool:  # noqa: ARG002
        return True


def test_what_answers_as_a_slave_ends_when_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the same address, however often it had to begin to wait."""
    monkeypatch.setattr("jdbcstore.broker.process.slave._RETRY_DELAY", 0.01)
    monkeypatch.setattr(Wavering, "starts", 0)
    connector = ConnectorConfig(uri=f"stomp://127.0.0.1:{free_port()}")
    made = configuration(tmp_path, answer_as_slave=True, connectors=(connector,))
    waited: list[NotMaster] = []

    async def main() -> None:
        locker = CustomLockerConfig(locker_class=f"{__name__}:Wavering")
        async with BrokerHost(replace(made, locker=locker), on_waiting=waited.append) as host:
            assert await readiness(host) == (200, "ready")

    run(main)
    assert len(waited) == 2


def _lose(host: BrokerHost) -> None:
    master = host.master
    assert master is not None
    store = master.store
    assert isinstance(store, JdbcStore)
    assert store.fence is not None
    store.fence.lose("another took it")


def test_without_a_database(tmp_path: Path) -> None:
    async def main() -> None:
        memory = configuration(tmp_path, persistent=False)
        async with BrokerHost(memory) as host, Stomp(port_of(host)) as client:
            await client.send("/queue/A", "two pints")
            await client.subscribe("/queue/A")
            assert await client.message() == "two pints"
        assert [*tmp_path.iterdir()] == []

    run(main)


def test_what_keeps_it_from_serving_is_raised(tmp_path: Path) -> None:
    async def main() -> None:
        async with BrokerHost(configuration(tmp_path)) as host:
            taken = ConnectorConfig(uri=f"stomp://127.0.0.1:{port_of(host)}")
            other = tmp_path / "other"
            other.mkdir()
            with pytest.raises(OSError, match="address already in use"):
                async with BrokerHost(configuration(other, connectors=(taken,))):
                    pass
            # Its lock is free again.
            jdbcstore.open(configuration(other), lock_timeout=0.0).close()
        with pytest.raises(ConfigurationError, match="cannot read the users file"):
            async with BrokerHost(configuration(tmp_path, users_file="nowhere.toml")):
                pass

    run(main)


def test_an_open_door_to_everybody_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main(uri: str) -> None:
        async with BrokerHost(configuration(tmp_path, connectors=(ConnectorConfig(uri=uri),))):
            pass

    with caplog.at_level(logging.WARNING):
        run(lambda: main("stomp://127.0.0.1:0"))
        assert caplog.text == ""
        run(lambda: main("stomp://0.0.0.0:0"))
    assert "any client that can reach stomp://0.0.0.0:0 may log in" in caplog.text


def test_users(tmp_path: Path) -> None:
    from jdbcstore.broker.security import hash_password
    from jdbcstore.config.users import write_user

    write_user(tmp_path / "users.toml", "alice", hash_password("secret"), write=["A"])

    async def main() -> None:
        async with BrokerHost(configuration(tmp_path, users_file=f"{tmp_path}/users.toml")) as host:
            async with Stomp(port_of(host), "alice", "secret") as client:
                await client.send("/queue/A", "two pints")
                with pytest.raises(AssertionError, match="ERROR"):
                    await client.send("/queue/B", "two pints")
            with pytest.raises(AssertionError, match="ERROR"):
                async with Stomp(port_of(host), "alice", "wrong"):
                    pass

    run(main)


def test_prepared_messages_are_there(tmp_path: Path) -> None:
    with jdbcstore.open(configuration(tmp_path)) as store:
        store.queue("A").add_message(Message("before"))

    async def main() -> None:
        async with BrokerHost(configuration(tmp_path)) as host, Stomp(port_of(host)) as client:
            await client.subscribe("/queue/A")
            assert await client.message() == "before"

    run(main)


def test_an_address_of_ipv6_is_an_address() -> None:
    assert str(Address("::1", 5)) == "[::1]:5"


def test_a_pause_outlasts_a_hand_over_and_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jdbcstore.broker.process.host._HAND_OVER", 0.0)
    queue = Destination.queue("A")

    async def main() -> None:
        ready = asyncio.Event()
        async with BrokerHost(configuration(tmp_path), on_ready=lambda _: ready.set()) as host:
            management = Management(host, SystemClock())
            await management.destinations.create(ALICE, queue)
            await management.queues.pause(ALICE, queue)
            first = host.master
            ready.clear()
            host.hand_over()
            await ready.wait()
            assert host.master is not first
            async with Stomp(port_of(host)) as client:
                await client.send("/queue/A", "two pints")
            assert host.master is not None
            assert host.master.engine is not None
            found = host.master.engine.destinations[queue]
            assert isinstance(found, Queue)
            assert found.is_paused
            assert "another master would deliver from them" not in caplog.text
        async with BrokerHost(configuration(tmp_path)) as another:
            management = Management(another, SystemClock())
            view = await management.views.destination(queue)
            assert (view.is_paused, view.paused_by, view.size) == (True, "alice", 1)
            await management.queues.resume(ALICE, queue)
        async with BrokerHost(configuration(tmp_path)) as last:
            assert not (await Management(last, SystemClock()).views.destination(queue)).is_paused

    run(main)


def test_it_serves_only_while_the_network_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async def until(condition: Callable[[], bool]) -> None:
            while not condition():
                await asyncio.sleep(0.01)

        machine = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = machine.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/"
        checked = {"network_check_urls": url, "network_check_period": 0.05}
        async with BrokerHost(configuration(tmp_path, **checked)) as host:
            machine.close()
            await machine.wait_closed()
            await until(lambda: host.condition.state == "network down")
            assert host.condition.reason == "no checked machine answers"
            with jdbcstore.open(configuration(tmp_path)) as other:  # which takes the lock
                other.queue("Q").add_message(Message("x"))
            machine = await asyncio.start_server(accept, "127.0.0.1", port)
            await host.ready()
            assert host.condition.serves
        machine.close()

    run(main)


def test_a_machine_is_asked_by_a_command(tmp_path: Path) -> None:
    (tmp_path / "127.0.0.1").touch()
    (tmp_path / "1").touch()

    async def main() -> None:
        changes: list[bool] = []
        options: dict[str, Any] = {"urls": (), "period": 1.0, "timeout": 1.0, "on_change": changes.append}
        for command, hosts, is_there in (
            (f"test -e {tmp_path}/%2$s", ["127.0.0.1"], True),
            (f"test -e {tmp_path}/%d -a -e {tmp_path}/%s", ["127.0.0.1"], True),
            (f"test -e {tmp_path}/%2$s", ["127.0.0.2"], False),
            (f"test -e {tmp_path}/%2$s", ["127.0.0.2", "127.0.0.1"], True),
        ):
            watch = NetworkWatch(hosts=hosts, commands=(command, "false"), **options)
            await watch.check()
            assert watch.is_there is is_there
        assert changes == [False]
        watch = NetworkWatch(hosts=["::1"], commands=("false", f"test -e {tmp_path}"), **options)
        await watch.check()
        assert watch.is_there
        watch = NetworkWatch(hosts=["::1"], commands=(f"{tmp_path}/no-program", None), **options)
        with pytest.raises(ConfigurationError, match=r"needs the program .*; install it"):
            await watch.check()

    run(main)

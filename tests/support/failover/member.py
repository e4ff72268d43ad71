"""One of the processes that want to be the master: it stores and consumes while it is, and says all it does.

Run as ``python -m tests.support.failover.member SPECIFICATION``, in JSON. Each line it writes begins with the
monotonic clock, which all processes of a machine share. A message is named after its member and epoch.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import threading
import time
from dataclasses import asdict, dataclass

from jdbcstore import Configuration, JdbcStore, Message, MessageId, ProducerId, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import (
    DatabaseLockerConfig,
    LeaseDatabaseLockerConfig,
    LockerConfig,
    SharedFileLockerConfig,
    ZooKeeperLockerConfig,
)
from jdbcstore.errors import LockLost, OutcomeUnknown, StoreError
from jdbcstore.lockers import AbstractLocker, make_locker

_BACKLOG = 50
_PACE = 0.002
_never = threading.Event()
"""What is waited for, in place of time.sleep, which fails under libfaketime."""


@dataclass(frozen=True)
class Specification:
    """What a member is to be. ``allowed`` is how far its clock may be from the database's."""

    url: str
    name: str
    broker_name: str
    locker: str
    lease: float
    keep_alive: float
    directory: str
    allowed: float = 0.0
    zookeeper: str = ""
    """Its address, if that is the locker."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def locker_config(self) -> LockerConfig:
        lease, keep_alive = self.lease, self.keep_alive
        if self.locker == "lease":
            return LeaseDatabaseLockerConfig(
                lock_acquire_sleep_interval=lease,
                lock_keep_alive_period=keep_alive,
                max_allowable_diff_from_db_time=self.allowed,
            )
        if self.locker == "file":
            return SharedFileLockerConfig(
                directory=self.directory,
                lock_acquire_sleep_interval=lease,
                lock_keep_alive_period=keep_alive,
            )
        if self.locker == "zookeeper":
            return ZooKeeperLockerConfig(
                address=self.zookeeper, session_timeout=lease, lock_keep_alive_period=keep_alive
            )
        return DatabaseLockerConfig(lock_acquire_sleep_interval=lease, lock_keep_alive_period=keep_alive)


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, (time.monotonic(), *words))) + "\n").encode())


def main(specification: str) -> None:
    wanted = Specification(**json.loads(specification))
    source = DataSourceConfig(url=wanted.url)
    config = StoreConfig(cleanup_period=0.0, reconnect_timeout=2.0, create_tables_on_startup=False)
    configuration = Configuration(data_source=source, store=config)
    say("born")
    while True:
        try:
            url, user, password = configuration.login()
            locker = telling(make_locker(wanted.locker_config(), wanted.broker_name))
            with JdbcStore(url, config, user=user, password=password, locker=locker) as store:
                assert store.fence is not None
                say("master", store.fence.epoch)
                serve(store, f"{wanted.name}-{os.getpid()}-{store.fence.epoch}")
        except LockLost:
            say("lost")
        except StoreError as error:
            say("error", type(error).__name__, *str(error).split())
            _never.wait(0.1)


def telling(locker: AbstractLocker) -> AbstractLocker:
    """The locker, such that each attempt to take the lock is told of: a slave is heard to be there."""
    attempt = locker.do_start

    def do_start(max_wait: float) -> bool:
        held = attempt(max_wait)
        say("tried", held)
        return held

    locker.do_start = do_start  # type: ignore[method-assign]
    return locker


def serve(store: JdbcStore, name: str) -> None:
    """Store and acknowledge, one by one, until the lock is lost."""
    producer = ProducerId(f"ID:{name}", 1, 1)
    for number in itertools.count(1):
        try:
            _add(store, Message(name, message_id=MessageId(producer, number)))
            if number % _BACKLOG == 0:
                _acknowledge(store)
            _never.wait(_PACE)
        except LockLost:
            raise
        except StoreError as error:
            assert store.fence is not None
            if store.fence.lost is not None:
                raise store.fence.lost from error
            say("error", type(error).__name__)
            _never.wait(0.05)


def _add(store: JdbcStore, message: Message) -> None:
    """Store one message. What fails without being in doubt was not written: that is promised."""
    try:
        store.queue("FAILOVER").add_message(message)
    except StoreError as error:
        if not (isinstance(error, OutcomeUnknown) or (isinstance(error, LockLost) and error.in_doubt)):
            say("refused", message.message_id)
        raise
    say("added", message.message_id)


def _acknowledge(store: JdbcStore) -> None:
    queue = store.queue("FAILOVER")
    for old in random.sample([*queue.recover(_BACKLOG)], _BACKLOG - 5):
        say("acking", old.message_id)
        queue.acknowledge(old)
        say("acked", old.message_id)


if __name__ == "__main__":
    main(*sys.argv[1:])

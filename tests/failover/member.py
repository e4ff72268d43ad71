"""One of the processes that want to be the master: it stores and consumes while it is, and says all it does.

Run as ``python -m tests.failover.member URL NAME LOCKER LEASE``. Each line it writes begins with the
monotonic clock, which all processes of a machine share. A message is named after its member and epoch.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time

from jdbcstore import Configuration, JdbcStore, Message, MessageId, ProducerId, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import DatabaseLockerConfig, LeaseDatabaseLockerConfig, LockerConfig
from jdbcstore.errors import LockLost, StoreError

_BACKLOG = 50


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, (time.monotonic(), *words))) + "\n").encode())


def locker_of(kind: str, lease: float) -> LockerConfig:
    if kind == "lease":
        return LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=lease, lock_keep_alive_period=lease / 5)
    return DatabaseLockerConfig(lock_acquire_sleep_interval=lease, lock_keep_alive_period=lease / 3)


def main(url: str, name: str, kind: str, lease: str) -> None:
    configuration = Configuration(
        data_source=DataSourceConfig(url=url),
        store=StoreConfig(cleanup_period=0.0, reconnect_timeout=2.0, create_tables_on_startup=False),
        broker_name=name,
        locker=locker_of(kind, float(lease)),
    )
    say("born")
    while True:
        try:
            with JdbcStore.configured(configuration) as store:
                assert store.fence is not None
                say("master", store.fence.epoch)
                serve(store, f"{name}-{os.getpid()}-{store.fence.epoch}")
        except LockLost:
            say("lost")
        except StoreError as error:
            say("error", type(error).__name__, *str(error).split())
            time.sleep(0.1)


def serve(store: JdbcStore, name: str) -> None:
    """Store and acknowledge, one by one, until the lock is lost."""
    producer = ProducerId(f"ID:{name}", 1, 1)
    queue = store.queue("FAILOVER")
    for number in itertools.count(1):
        message = Message(name, message_id=MessageId(producer, number))
        try:
            say("adding", message.message_id)
            queue.add_message(message)
            say("added", message.message_id)
            if number % _BACKLOG == 0:
                for old in random.sample([*queue.recover(_BACKLOG)], 20):
                    say("acking", old.message_id)
                    queue.acknowledge(old)
                    say("acked", old.message_id)
        except LockLost:
            raise
        except StoreError as error:
            assert store.fence is not None
            if store.fence.lost is not None:
                raise store.fence.lost from error
            say("error", type(error).__name__)
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])

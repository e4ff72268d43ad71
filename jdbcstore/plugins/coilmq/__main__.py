"""``python -m jdbcstore.plugins.coilmq``: CoilMQ's command, with a manager that keeps messages."""

from __future__ import annotations

from coilmq import start
from coilmq.config import config

from jdbcstore.plugins.coilmq.manager import KeepingQueueManager


def main() -> None:
    # CoilMQ can be told of another store, and not of another manager.
    config.set("coilmq", "qstore.factory", "jdbcstore.plugins.coilmq.make_store")
    start.QueueManager = KeepingQueueManager
    start.main()


if __name__ == "__main__":
    main()

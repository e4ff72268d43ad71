"""CoilMQ, a STOMP broker for Python, on the tables of ActiveMQ; docs/guide/coilmq.md describes it.

``qstore.factory = jdbcstore.plugins.coilmq.make_store`` gives CoilMQ's own launcher our store.
``python -m jdbcstore.plugins.coilmq`` is a launcher with a manager that keeps what CoilMQ's loses.
"""

from jdbcstore.plugins.coilmq.manager import KeepingQueueManager
from jdbcstore.plugins.coilmq.store import JdbcQueueStore, StoredFrame, make_store

__all__ = ["JdbcQueueStore", "KeepingQueueManager", "StoredFrame", "make_store"]

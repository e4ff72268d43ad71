"""The broker's process: as ``jdbcstore broker``, on a port that stays the same.

    python -m jdbcstore.cli.demo.serving PORT LOCK

``LOCK`` is the folder of the file that only one broker locks. The store's URL is in JDBCSTORE_URL. It ends
when its standard input does, so it does not outlive whoever started it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from jdbcstore import Configuration
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.locker import SharedFileLockerConfig


async def serve(configuration: Configuration) -> None:
    """Serve until the input ends."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def watch() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=watch, daemon=True).start()
    async with BrokerHost(configuration):
        await ended.wait()


if __name__ == "__main__":
    port, lock = sys.argv[1:]
    connector = ConnectorConfig(uri=f"stomp://127.0.0.1:{port}")
    asyncio.run(
        serve(
            Configuration(
                data_source=DataSourceConfig(url=os.environ["JDBCSTORE_URL"]),
                locker=SharedFileLockerConfig(directory=lock),
                broker=BrokerConfig(connectors=(connector,)),
            )
        )
    )

"""Hostile requests to a broker under load, by hand:

    python -m tests.long.management --count 100000 --seed 7

A broker process serves a producer and a consumer of STOMP meanwhile. It must answer /live all the time,
serve at the end, have lost no message, and have logged no unexpected error.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import click

from jdbcstore.config.broker import Address
from tests.support.broker.api import ApiClient
from tests.support.broker.hostile import attack
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.ports import free_port

_AT_ONCE = 1_000


@click.command(help=__doc__)
@click.option("--count", default=100_000, show_default=True)
@click.option("--seed", default=7, show_default=True)
def main(count: int, seed: int) -> None:
    folder, port = Path(tempfile.mkdtemp(prefix="jdbcstore-hostile-")), free_port()
    options = ("--url", f"sqlite:///{folder}/mq.db", "--health", f"127.0.0.1:{port}")
    with BrokerProcess(folder, *options) as process:
        process.ready()
        address = Address("127.0.0.1", port)
        api, stopping, sent = ApiClient(address), threading.Event(), 0
        consumer, producer = Client(process.port), Client(process.port)
        consumer.connect()
        consumer.consume("/queue/LOAD")
        producer.connect()

        def produce() -> None:
            nonlocal sent
            while not stopping.wait(0.02):
                producer.send("/queue/LOAD", f"m{sent}")
                sent += 1

        producing = threading.Thread(target=produce)
        producing.start()
        answers, began, slowest = 0, time.monotonic(), 0.0
        try:
            for number in range(0, count, _AT_ONCE):
                answers += attack(address, seed + number, min(_AT_ONCE, count - number))
                asked = time.monotonic()
                assert api.ask("GET", "/live")[0] == 200
                slowest = max(slowest, time.monotonic() - asked)
                click.echo(f"{number + _AT_ONCE} requests, {answers} answers, {sent} messages")
        finally:
            stopping.set()
            producing.join()
        consumer.wait_for(sent)
        assert api.get("/api/broker")["condition"]["state"] == "serving"
        seconds = time.monotonic() - began
        for one in (consumer, producer):
            one.close()
        log = process.log.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]
    click.echo(f"{count} requests in {seconds:.0f} s: {answers} answers, {sent} messages, none lost;")
    click.echo(f"the slowest /live took {slowest:.2f} s")


if __name__ == "__main__":
    main()

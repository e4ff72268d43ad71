"""``jdbcstore console``: pages over a database that another process serves."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

import jdbcstore
from jdbcstore import Claims, Configuration, Destination, Message
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.message.ids import XATransactionId
from tests.support import ROOT
from tests.support.cli.command_line import CommandLine
from tests.support.cli.console import PAGES, console_on


def test_a_database_that_is_served_is_looked_at_and_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "mq.db"
    url = f"sqlite:///{file}"
    configuration = Configuration(
        data_source=DataSourceConfig(url=url),
        locker=SharedFileLockerConfig(directory=f"{file}-lock"),
        broker_name="other",
    )
    with jdbcstore.open(configuration) as store:  # the master
        queue = store.queue("ORDERS")
        queue.add_messages([Message(f"m{number}", properties={"n": number}) for number in range(120)])
        store.queue("<b>EU</b>").add_message(Message("two pints"))
        store.queue("ActiveMQ.DLQ").add_message(
            Message("dead", original_destination=Destination.queue("ORDERS"))
        )
        store.topic("PRICES").subscribe("board", "all")
        store.topic("PRICES").add_message(Message("7"))
        branch = store.xa.start(XATransactionId(1, b"g", b"b"))
        branch.queue("DOUBT").add_message(Message("x"))
        branch.prepare()
        raw = sqlite3.connect(file)
        before = raw.execute("PRAGMA data_version").fetchone()
        with console_on(tmp_path, url) as console:
            for path in PAGES:
                page = console.get(path)
                assert page.scripts == page.scripts[:1]
                assert not any("/do/" in link for link in page.links)
            assert "ORDERS 120" in console.get("/queues", sort="size", order="desc").text
            assert "<b>EU</b>" in console.get("/queues").text
            assert "board : all" in console.get("/consumers").text
            assert "no reason given 1 ORDERS" in console.get("/dead-letters").text
            assert "DOUBT" in console.get("/transactions").text
            assert "Pending migration none" in console.get("/broker").text
            first = console.get("/queue", name="ORDERS")
            [following] = {link for link in first.links if "after=" in link}
            assert "m70" in console.ask("GET", following).text
            found = console.get("/queue", name="ORDERS", selector="n = 77")
            [message] = {link for link in found.links if "/message?" in link}
            assert "m77" in console.ask("GET", message).text
            assert console.ask("GET", "/console/queue?name=NONE").status == 404
            assert console.ask("GET", "/console/message?name=ORDERS&id=none").status == 404
            for method in ("GET", "POST"):
                assert console.ask(method, "/console/do/purge?name=ORDERS", "").status == 404
            assert console.ask("GET", "/").headers["Location"] == "/console"
            assert raw.execute("PRAGMA data_version").fetchone() == before  # nobody has committed
            raw.close()
            queue.add_message(Message("meanwhile", properties={"n": 1000}))
            assert "meanwhile" in console.get("/queue", name="ORDERS", selector="n = 1000").text
        queue.acknowledge(*queue.recover(limit=200)[-1:])
        assert queue.message_count() == 120


def test_what_cannot_be_served(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, f"sqlite:///{tmp_path}/mq.db")
    cli.run("init")
    for arguments, code in (
        (("--listen", "nowhere"), 2),
        (("--url", "sqlite:///none.db"), 5),
        (("--users", "none.toml"), 3),
    ):
        found = cli.run("console", *arguments)
        assert found.code == code, found.err
        assert "Traceback" not in found.err


def test_claims_have_metrics(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    with Claims(url, name="w-1") as claims:
        queue = claims.queue("ORDERS")
        queue.add(*[Message(str(number)) for number in range(5)])
        queue.add(Message("later"), delay=3600)
        queue.claim(limit=2)
        keyed = claims.queue("KEYED")
        keyed.add(*(Message("x", group_id=key) for key in "aab"))
        keyed.flow.share()
        keyed.flow.set_key("a", weight=2)
        keyed.reject(*keyed.claim())
        with console_on(tmp_path, url) as console:
            status, answer = console.api.ask("GET", "/metrics")
        assert status == 200
        values = {
            f"{sample.name}{[*sample.labels.values()]}": sample.value
            for family in text_string_to_metric_families(str(answer))
            for sample in family.samples
        }
    of_queue = {name: values[f"jdbcstore_claims_{name}['ORDERS']"] for name in ("free", "claimed", "delayed")}
    assert of_queue == {"free": 3, "claimed": 2, "delayed": 1}
    of_key = {name: value for name, value in values.items() if name.startswith("jdbcstore_claims_key_")}
    assert of_key == {
        f"jdbcstore_claims_key_{name}['a', 'KEYED']": value
        for name, value in (("free", 2), ("claimed", 0), ("delayed", 0), ("redeliveries", 1))
    }
    assert (values["jdbcstore_claims_workers[]"], values["jdbcstore_claims_left[]"]) == (1, 0)
    assert values["jdbcstore_database_sick[]"] == 0
    names = {name.partition("[")[0] for name in values}
    documented = (ROOT / "docs" / "monitoring" / "metrics.csv").read_text().replace(",", " ").split()
    assert sorted(names.difference(documented)) == []

"""``journal`` where the log is in a stream: what reads it works, and what would need files says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nats as client
import pytest

import jdbcstore
from jdbcstore import load_config
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.stores.replicated.copying import copy_database
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.polling import wait_until
from tests.cli.conftest import Invoke
from tests.support.broker.programs import BrokerProcess
from tests.support.streams import NatsServer

pytestmark = pytest.mark.servers


@pytest.fixture
def place(tmp_path: Path, nats: NatsServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration that names a stream of its own."""
    monkeypatch.chdir(tmp_path)
    Path("jdbcstore.toml").write_text(
        f'url = "sqlite:///mq.db"\ncleanup_period = 0\n[journal]\nstream = "{nats.url}"\n'
        f'stream_name = "cli-{tmp_path.name}"\nreplicas = 1\ndirectory = "journal"\n'
    )
    return tmp_path


def test_brokers_with_databases_of_their_own_are_shown(place: Path, invoke: Invoke) -> None:
    config = ("--config", "jdbcstore.toml")
    with (place / "jdbcstore.toml").open("a") as file:
        file.write('replicated = true\nnode = "a"\nweight = 3\n')
    with jdbcstore.open(load_config(Path("jdbcstore.toml"), environment={})) as store:
        store.record_queue("Q")

        def masters() -> list[Any]:
            lines = invoke("journal", "members", "--json", *config).lines
            return [one for one in lines if one["role"] == "master"]

        [first] = wait_until(masters, what="the master, which was a follower until then")
        assert (first["node"], first["weight"]) == ("a", 3)
        assert "has everything" in invoke("journal", "members", *config).out
        dumped = invoke("journal", "dump", *config).out
        assert "record queue queue://Q" in dumped


def test_members_of_a_journal_that_is_not_replicated_are_refused(place: Path, invoke: Invoke) -> None:
    with jdbcstore.open(load_config(place / "jdbcstore.toml", environment={})):
        refused = invoke("journal", "members", "--config", "jdbcstore.toml")
    assert (refused.code, "share one database" in refused.err) == (ExitCode.USAGE, True)


def test_status_says_that_a_stream_was_replaced(place: Path, nats: NatsServer, invoke: Invoke) -> None:
    config = ("--config", "jdbcstore.toml")

    async def replace() -> None:
        connection = await client.connect(nats.url)
        await connection.jetstream().delete_stream(f"cli-{place.name}")
        await connection.close()

    with jdbcstore.open(load_config(Path("jdbcstore.toml"), environment={})) as store:
        assert isinstance(store, JournaledStore)
        fill(store.queue("Q"), "a")
        store.checkpoint()
        asyncio.run(replace())
        Path("other.toml").write_text(Path("jdbcstore.toml").read_text().replace("mq.db", "other.db"))
        jdbcstore.open(load_config(Path("other.toml"), environment={})).close()
        shown = invoke("status", *config).out
    assert "it may lose acknowledged messages: it ends with record 0" in shown


def test_a_broker_is_told_which_servers_it_has(
    place: Path, nats: NatsServer, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one must be whose file is an activemq.xml with a replicatedLevelDB."""
    text = (place / "jdbcstore.toml").read_text().replace(f'stream = "{nats.url}"\n', "replicated = true\n")
    (place / "jdbcstore.toml").write_text(text)
    assert "required for replicatedLevelDB" in " ".join(invoke("broker", "--help").out.split())
    refused = invoke("broker", "--stream", "http://h")
    assert (refused.code, refused.out) == (2, "")
    assert "nats://" in refused.err
    with BrokerProcess(place, "--stream", nats.url) as broker:
        assert broker.ready()
        monkeypatch.setenv("JDBCSTORE_JOURNAL_STREAM", nats.url)
        members = ("journal", "members", "--json", "--config", "jdbcstore.toml")
        wait_until(lambda: [one["role"] for one in invoke(*members).lines] == ["master"], what="the master")


def test_it_is_checked_and_dumped(place: Path, nats: NatsServer, invoke: Invoke) -> None:
    config = ("--config", "jdbcstore.toml")
    assert "there is no journal in the stream" in invoke("journal", "check", *config).err
    with jdbcstore.open(load_config(Path("jdbcstore.toml"), environment={})) as store:
        fill(store.queue("Q"), "a")
        fill(store.queue("Q"), "b")
        checked = invoke("journal", "check", *config)
        assert checked.code == ExitCode.DONE
        where = f"the stream cli-{place.name} at {nats.url}"
        assert checked.out == f"{where}: 2 records, all sound\n"
        assert invoke("journal", "check", "--json", *config).json == {
            "stream": where,
            "records": 2,
            "first_record": 1,
            "last_record": 2,
            "sound": True,
            "refusal": None,
        }
        dumped = invoke("journal", "dump", "--json", *config).lines
        assert [(one["record"], one["adds"][0]["destination"]) for one in dumped] == [
            (1, "queue://Q"),
            (2, "queue://Q"),
        ]
        assert "adds 1 to queue://Q" in invoke("journal", "dump", *config).out
        assert invoke("journal", "refused", *config).code == ExitCode.DONE

    Path("other.toml").write_text(Path("jdbcstore.toml").read_text().replace("mq.db", "other.db"))
    invoke("init", "--config", "other.toml")
    refused = invoke("journal", "check", "--config", "other.toml")
    assert refused.code == ExitCode.FAILED
    assert "does not open" in refused.out


def test_what_is_released_while_it_is_checked_is_no_damage(
    place: Path, nats: NatsServer, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    with jdbcstore.open(load_config(Path("jdbcstore.toml"), environment={})) as store:
        fill(store.queue("Q"), "a")
        fill(store.queue("Q"), "b")
    asked, late_purge = StreamServer.messages, [3]

    def late(self: StreamServer, *arguments: Any) -> Any:
        if late_purge:
            self.purge(late_purge.pop())
        return asked(self, *arguments)

    monkeypatch.setattr(StreamServer, "messages", late)
    checked = invoke("journal", "check", "--config", "jdbcstore.toml")
    assert checked.out == f"the stream cli-{place.name} at {nats.url}: 1 record, all sound\n"


@pytest.mark.usefixtures("place")
def test_its_state_is_shown_without_a_broker(invoke: Invoke) -> None:
    status = ("status", "--json", "--config", "jdbcstore.toml")
    invoke("init", "--config", "jdbcstore.toml")
    assert "does not exist" in invoke(*status).json["stream"]["problem"]
    assert "not created yet" in invoke("doctor", "--config", "jdbcstore.toml").out
    with jdbcstore.open(load_config(Path("jdbcstore.toml"), environment={})) as store:
        assert isinstance(store, JournaledStore)
        fill(store.queue("Q"), *"abc")
        store.checkpoint()
        fill(store.queue("Q"), "d")
        stream = invoke(*status).json["stream"]
        names = ("current", "present", "problem", "last_record", "applied", "lag_records")
        assert [stream[name] for name in names] == [1, 1, None, 2, 1, 1]
        assert 0 < stream["lag_bytes"] < stream["size"]
        shown = invoke("status", "--config", "jdbcstore.toml").out
        assert "1 of 1 replicas are current; 1 are configured; quorum_mem" in shown
        assert "up to record 2; the database up to 1, and lacks 1 record, " in shown
    assert invoke(*status).json["stream"]["lag_records"] == 0
    found = {one["group"]: one for one in invoke("doctor", "--json", "--config", "jdbcstore.toml").lines}
    assert found["Journal"]["found"] == "1 of 1 replicas are current"


@pytest.mark.usefixtures("place")
def test_what_needs_files_is_refused(invoke: Invoke) -> None:
    config = ("--config", "jdbcstore.toml")
    repaired = invoke("journal", "repair", *config)
    assert repaired.code == ExitCode.USAGE
    assert "only its servers can repair it" in repaired.err
    assert (
        "does not keep messages that are in the database"
        in invoke("replay", "--to-destination", "R", *config).err
    )


@pytest.mark.usefixtures("place")
def test_it_is_replayed(invoke: Invoke) -> None:
    assert "wrote 0 records" in invoke("journal", "replay", "--config", "jdbcstore.toml").out
    with jdbcstore.open(load_config(Path("jdbcstore.toml"), environment={})) as store:
        fill(store.queue("Q"), "a")
        assert content(store.queue("Q")) == ["a"]


@pytest.mark.usefixtures("place")
def test_a_login_in_the_url_is_refused_and_not_shown(invoke: Invoke) -> None:
    path = Path("jdbcstore.toml")
    path.write_text(path.read_text().replace('stream = "', 'stream = "nats://mq:secret@'))
    said = invoke("journal", "check", "--config", "jdbcstore.toml")
    assert said.code == ExitCode.CONFIGURATION
    assert "stream_password_env" in said.err
    assert "secret" not in said.err


def test_a_strangers_message_and_a_deleted_one(place: Path, nats: NatsServer, invoke: Invoke) -> None:
    """``check`` counts what is sound, and says what is not; ``adopt`` goes on with it."""
    config = ("--config", "jdbcstore.toml")
    name = f"cli-{place.name}"

    async def publish() -> None:
        connection = await client.connect(nats.url)
        await connection.jetstream().publish(f"jdbcstore.journal.{name}", b"hello")
        await connection.close()

    async def delete(at: int) -> None:
        connection = await client.connect(nats.url)
        await connection.jetstream().delete_msg(name, at)
        await connection.close()

    with jdbcstore.open(load_config(Path("jdbcstore.toml"), environment={})) as store:
        fill(store.queue("Q"), "a")
        asyncio.run(publish())
        fill(store.queue("Q"), "b")
        checked = invoke("journal", "check", *config)
        assert (checked.code, "2 records, all sound" in checked.out) == (ExitCode.DONE, True)
        copy_database(Path("mq.db"), Path("before.db"))
    Path("before.toml").write_text(Path("jdbcstore.toml").read_text().replace("mq.db", "before.db"))
    config = ("--config", "before.toml")
    assert "start the broker" in invoke("journal", "adopt", *config).err
    asyncio.run(delete(5))  # the mark of the clean end
    checked = invoke("journal", "check", *config)
    assert checked.code == ExitCode.FAILED
    assert "2 records, sound, but the journal does not open" in checked.out
    assert "message 5 of the stream is missing" in checked.out
    repaired = invoke("journal", "repair", *config)
    assert "jdbcstore journal adopt" in repaired.err
    assert "repair" not in checked.out
    adopted = invoke("journal", "adopt", *config)
    assert adopted.code == ExitCode.DONE
    assert "continues behind record 2; 2 records of it were applied first" in adopted.out
    with jdbcstore.open(load_config(Path("before.toml"), environment={})) as store:
        assert [one.body for one in store.queue("Q").recover()] == ["a", "b"]


def test_commands_know_the_lock_of_a_replicated_broker(place: Path, invoke: Invoke) -> None:
    """It is not in the database; and what writes asks the master."""
    config = ("--config", "jdbcstore.toml")
    with (place / "jdbcstore.toml").open("a") as file:
        file.write('replicated = true\nnode = "a"\n')
    (place / "jdbcstore.toml").write_text(f'broker_name = "m1"\n{(place / "jdbcstore.toml").read_text()}')
    with BrokerProcess(place, "--health", "127.0.0.1:0") as broker:
        assert broker.ready()
        waited = invoke("wait-master", "--timeout", "5", *config)
        assert (waited.code, waited.out, waited.err) == (ExitCode.DONE, "m1 is the master\n", "")
        assert "holder   m1, for as long as it runs" in invoke("lock", *config).out
        shown = invoke("status", *config).out
        assert "lock     held\nmaster   m1" in shown
        sent = invoke("send", "Q", "two pints", *config)
        assert (sent.code, "asking the broker" in sent.err) == (ExitCode.DONE, True), sent.err
        consumed = invoke("consume", "Q", *config)
        assert (consumed.code, "two pints" in consumed.out) == (ExitCode.DONE, True)
        _check_machine_without_database(invoke)
        assert broker.end() == 0
    assert "holder   none" in invoke("lock", *config).out
    assert invoke("wait-master", "--timeout", "0", *config).code == ExitCode.LOCKED
    for command in ("lock", "status"):
        refused = invoke(command, "--config", "third.toml")
        assert (refused.code, "no SQLite file third.db" in refused.err) == (ExitCode.SCHEMA, True)


def _check_machine_without_database(invoke: Invoke) -> None:
    """The servers of the stream know the master, and the master its messages."""
    config = ("--config", "third.toml")
    Path("third.toml").write_text(Path("jdbcstore.toml").read_text().replace("mq.db", "third.db"))
    waited = invoke("wait-master", "--timeout", "0", *config)
    assert (waited.code, waited.out, waited.err) == (ExitCode.DONE, "m1 is the master\n", "")
    shown = invoke("lock", *config)
    assert (shown.code, "holder   m1, for as long as it runs" in shown.out) == (ExitCode.DONE, True)
    assert "no SQLite file third.db" in shown.err
    shown = invoke("status", *config)
    assert (shown.code, "lock     held\nmaster   m1" in shown.out) == (ExitCode.DONE, True)
    assert "Brokers with databases of their own" in shown.out
    assert not Path("third.db").exists()
    invoke("send", "FULL", "a", "--config", "jdbcstore.toml")
    url = invoke("status", "--json", "--config", "jdbcstore.toml").json["broker"]["url"]
    asked = invoke("status", "--json", "--broker", url, *config).json
    sizes = {fact["destination"]: fact["message_count"] for fact in asked["destinations"]}
    assert sizes["queue://FULL"] == 1

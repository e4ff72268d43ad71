"""``journal``: what is in the files of a journal, what is wrong with them, and how the database gets it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jdbcstore import Message, XATransactionId
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.inspection import segments
from jdbcstore.stores.journaled.records import encode_removal
from tests.cli.conftest import Invoke
from tests.support.journal.entries import Item, Told, configured, opened
from tests.support.tools.journals import file_of, flip, open_store, send


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a journal of sixty records in four files, closed."""
    folder = tmp_path / "journal"
    journal = opened(configured(folder, journal_disk_sync_strategy="never"), Told())
    for number in range(60):
        journal.append(Item(encode_removal("queue://Q", range(number, number + 20))), waits=True)
    journal.close()
    assert [*live_segments(folder)] == [1, 2, 3, 4]
    return folder


def damage(folder: Path, segment: int = 2, offset: int = 1000) -> None:
    path = live_segments(folder)[segment]
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def test_a_sound_journal(folder: Path, invoke: Invoke) -> None:
    assert "60 records, all sound" in invoke("journal", "check", str(folder)).out
    *files, whole = invoke("journal", "check", str(folder), "--json").lines

    assert [file["segment"] for file in files] == [1, 2, 3, 4]
    assert {file["state"] for file in files} == {"sound"}
    assert (files[0]["first_record"], files[-1]["last_record"]) == (1, 60)
    assert sum(file["records"] for file in files) == 60
    sound: dict[str, object] = {"sound": True, "torn": None, "damage": [], "refusal": None}
    assert whole == {"directory": str(folder), "records": 60, **sound}
    assert invoke("journal", "repair", str(folder), "--json").json["copies"] is None


def test_damage_is_told_by_segment_and_offset_and_repaired(folder: Path, invoke: Invoke) -> None:
    before = {path.name: path.read_bytes() for path in live_segments(folder).values()}
    damage(folder)

    found = invoke("journal", "check", str(folder), "--json")
    assert found.code == ExitCode.FAILED
    [fault] = found.lines[-1]["damage"]
    assert (fault["segment"], fault["lost"], fault["torn"]) == (2, 1, False)
    assert fault["offset"] <= 1000
    said = invoke("journal", "check", str(folder))
    assert said.code == ExitCode.FAILED
    assert f"segment 2 at {fault['offset']}: record {fault['first_record']} is damaged" in said.out

    done = invoke("journal", "repair", str(folder))
    assert done.code == ExitCode.DONE
    assert f"lost: record {fault['first_record']}" in done.out
    assert "59 records" in done.out
    [copies] = folder.glob("damaged-*")
    assert {path.name for path in copies.iterdir()} <= {*before}
    assert invoke("journal", "check", str(folder)).code == ExitCode.DONE


def test_what_is_cut_off_is_told(folder: Path, invoke: Invoke) -> None:
    damage(folder)

    done = invoke("journal", "repair", str(folder), "--cut", "--json").json

    lost = done["damage"][0]["first_record"]
    assert done["records"] == lost - 1
    assert done["cut_off"] == {"records": 60 - lost, "first": lost + 1, "last": 60}


def test_a_torn_end_is_no_damage(folder: Path, invoke: Invoke) -> None:
    last = live_segments(folder)[4]
    last.write_bytes(last.read_bytes()[:-50])

    found = invoke("journal", "check", str(folder), "--json")

    assert found.code == ExitCode.DONE
    assert found.lines[-1]["torn"]["segment"] == 4
    assert "no acknowledged message is lost" in invoke("journal", "check", str(folder)).out


def test_beside_who_has_it_open_it_is_looked_at_and_not_repaired(folder: Path, invoke: Invoke) -> None:
    journal = opened(configured(folder), Told())
    try:
        assert invoke("journal", "check", str(folder)).code == ExitCode.DONE
        refused = invoke("journal", "repair", str(folder))
    finally:
        journal.close()

    assert refused.code == ExitCode.LOCKED
    assert str(folder) in refused.err


def test_what_each_record_does(tmp_path: Path, invoke: Invoke) -> None:
    with open_store(tmp_path) as store:
        orders, news = store.queue("ORDERS"), store.topic("NEWS")
        subscription = news.subscribe("client", "all")
        first = orders.add_message(Message("one", priority=7))
        with store.transaction() as transaction:
            transaction.queue("ORDERS").acknowledge(first)
            transaction.topic("NEWS").add_message(Message("two"))
        subscription.acknowledge(*news.recover())
        branch = store.xa.start(XATransactionId(7, b"global", b"branch"))
        branch.queue("ORDERS").add_message(Message("three"))
        assert branch.prepare()
        folder = str(tmp_path / "journal")
        records = invoke("journal", "dump", folder, "--json").lines
        text = invoke("journal", "dump", folder).out

    add, both, acknowledged, prepared = records[-4:]
    assert [one["kind"] for one in records[-4:]] == ["write", "write", "write", "prepare"]
    assert add["adds"] == [
        {
            "sequence": first.sequence,
            "destination": "queue://ORDERS",
            "message_id": str(first.message_id),
            "priority": 0,
            "bytes": add["adds"][0]["bytes"],
        }
    ]
    assert both["removes"] == [{"destination": "queue://ORDERS", "sequences": [first.sequence]}]
    assert both["adds"][0]["destination"] == "topic://NEWS"
    [of_client] = acknowledged["acknowledgements"]
    assert (of_client["client_id"], of_client["subscription_name"]) == ("client", "all")
    assert of_client["sequences"] == [both["adds"][0]["sequence"]]
    assert (prepared["xid"], len(prepared["adds"])) == (str(XATransactionId(7, b"global", b"branch")), 1)
    assert f"adds 1 to queue://ORDERS ({first.message_id})" in text
    assert "adds 1 to topic://NEWS (" in text
    assert "; removes 1 of queue://ORDERS" in text
    assert "acknowledges 1 of topic://NEWS for all of client client" in text


def test_damage_of_what_is_only_kept_is_not_the_journals(tmp_path: Path, invoke: Invoke) -> None:
    folder = tmp_path / "journal"
    with open_store(tmp_path) as store:
        send(store, 100)
    assert len(invoke("journal", "dump", str(folder), "--kept", "--json").lines) == 100
    [damaged] = (file.path for file in segments(folder) if file.kept and file.number == 2)
    flip(damaged)

    found = invoke("journal", "check", str(folder), "--json")

    assert found.code == ExitCode.FAILED
    assert [one["state"] for one in found.lines[:-1] if one["file"] == damaged.name] == ["damaged"]
    assert {one["state"] for one in found.lines[:-1] if not one["kept"]} == {"sound"}
    assert (
        "all sound; a replay of the retained files stops at the damage"
        in invoke("journal", "check", str(folder)).out
    )


def test_a_dump_goes_over_damage(folder: Path, invoke: Invoke) -> None:
    damage(folder)

    found = invoke("journal", "dump", str(folder))

    assert found.code == ExitCode.FAILED
    assert "segment 2 at" in found.err


LEFT = """
import os, signal, sys
from jdbcstore import Message, load_config, open
store = open(load_config(sys.argv[1], environment={}), cleanup_period=0.0)
for number in range(30):
    store.queue("ORDERS").add_message(Message(f"{number}"))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_database_gets_what_a_killed_process_left(tmp_path: Path, invoke: Invoke) -> None:
    configuration = tmp_path / "jdbcstore.toml"
    configuration.write_text(f'url = "sqlite:///{tmp_path}/mq.db"\n[journal]\ndirectory = "journal"\n')
    left = subprocess.run([sys.executable, "-c", LEFT, str(configuration)], cwd=tmp_path, timeout=180)
    assert left.returncode == -signal.SIGKILL
    here = ("--url", f"sqlite:///{tmp_path}/mq.db", "--config", os.devnull)
    assert invoke("browse", "ORDERS", "--json", *here).lines == []
    assert "journal" in invoke("send", "ORDERS", "more", *here).err

    assert invoke("journal", "replay", "--json").json["records"] == 30

    assert len(invoke("browse", "ORDERS", "--json", *here).lines) == 30
    assert (
        invoke("journal", "replay").out == "wrote 0 records to the database, which is now the whole store\n"
    )
    assert invoke("send", "ORDERS", "more", *here).code == ExitCode.DONE


def test_messages_are_delivered_anew(tmp_path: Path, invoke: Invoke) -> None:
    """Those of the configured journal into its own store, or those of any journal's folder into another."""
    (tmp_path / "jdbcstore.toml").write_text(
        f'url = "sqlite:///{tmp_path}/mq.db"\n[journal]\ndirectory = "journal"\njournal_retention = 3600\n'
    )
    for body in ("one", "two", "three"):
        assert invoke("send", "ORDERS", body, "--property", f"word={body}").code == ExitCode.DONE
    assert invoke("consume", "ORDERS", "--count", "3").code == ExitCode.DONE

    chosen = ("--destination", "ORDERS", "--from", "2020-01-01", "--filter", "word <> 'two'")
    assert invoke("replay", *chosen, "--to-destination", "AGAIN", "--json").json["replayed"] == 2
    other = f"sqlite:///{tmp_path}/other.db"
    assert invoke("replay", "journal", other, *chosen, "--to-destination", "AGAIN").code == ExitCode.DONE
    for url in (f"sqlite:///{tmp_path}/mq.db", other):
        again = invoke("browse", "AGAIN", "--json", "--url", url).lines
        assert [one["body"] for one in again] == ["one", "three"]

    assert invoke("replay", "journal", "--to-destination", "AGAIN").code == ExitCode.USAGE
    assert invoke("replay", str(tmp_path), other, "--to-destination", "AGAIN").code == ExitCode.USAGE


def test_a_damaged_file_is_told_of_and_the_others_are_replayed(tmp_path: Path, invoke: Invoke) -> None:
    with open_store(tmp_path) as store:
        send(store, 100)
    flip(file_of(tmp_path, 2))

    done = invoke(
        "replay", "journal", f"sqlite:///{tmp_path}/other.db", "--to-destination", "AGAIN", "--json"
    )

    assert done.code == ExitCode.CORRUPT
    assert done.json["damaged"] == 1
    assert 50 < done.json["replayed"] < 100
    assert "skipped: the journal is damaged in segment 2 at " in done.err


def test_where_there_is_none(tmp_path: Path, invoke: Invoke) -> None:
    for command in ("check", "dump", "repair"):
        assert invoke("journal", command).code == ExitCode.USAGE
        assert "there is no journal in" in invoke("journal", command, str(tmp_path)).err
    assert "no journal is configured" in invoke("journal", "replay").err


def test_the_configuration_names_it(folder: Path, tmp_path: Path, invoke: Invoke) -> None:
    text = f'url = "sqlite:///{tmp_path}/mq.db"\n[journal]\ndirectory = "{folder}"\n'
    (tmp_path / "jdbcstore.toml").write_text(text)

    assert invoke("journal", "check", "--json").lines[-1]["records"] == 60

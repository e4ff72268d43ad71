"""``import``."""

from __future__ import annotations

import json
from pathlib import Path

import jdbcstore
from jdbcstore.util.file_lock import FileLock
from tests.cli.conftest import Invoke
from tests.support.importing.artemis_recorded import unpack
from tests.support.importing.writer import add, batch, outcome, subscribe, write_log


def written(folder: Path) -> Path:
    news = [subscribe("topic://NEWS", "c", "s"), *(add("topic://NEWS", n) for n in range(3))]
    return write_log(folder, 1, [*(add("queue://Q", n) for n in range(10, 15)), *news])


def test_import(invoke: Invoke, tmp_path: Path) -> None:
    folder, url = tmp_path / "data" / "kahadb", f"sqlite:///{tmp_path}/there.db"
    written(folder)

    planned = invoke("import", f"kahadb:{folder}", "--dry-run", "--url", url)
    assert planned.code == 0
    assert "8 messages can be imported; nothing was written" in planned.out
    assert not (tmp_path / "there.db").exists()

    found = invoke("import", str(tmp_path / "data"), "--url", url, "--json").json
    assert (found["imported"], found["messages"], found["same"], found["damages"]) == (8, 8, True, [])
    assert found["destinations"] == [
        {"destination": "queue://Q", "messages": 5, "size": found["destinations"][0]["size"], "in_doubt": 0,
         "subscriptions": 0},
        {"destination": "topic://NEWS", "messages": 3, "size": found["destinations"][1]["size"],
         "in_doubt": 0, "subscriptions": 1},
    ]  # fmt: skip
    again = invoke("import", f"kahadb:{folder}", "--url", url)
    assert (again.code, "imported 0 messages" in again.out) == (0, True)
    with jdbcstore.open(url) as store:
        assert store.queue("Q").message_count() == 5
        assert store.topic("NEWS").subscription("c", "s").message_count() == 3


def test_damage_is_named_and_the_rest_is_imported(invoke: Invoke, tmp_path: Path) -> None:
    log = written(tmp_path / "kahadb")
    size = len(batch(add("queue://Q", 10)))
    log.write_bytes(log.read_bytes()[:300] + b"\xff" + log.read_bytes()[301:])

    result = invoke("import", str(tmp_path / "kahadb"), "--url", f"sqlite:///{tmp_path}/there.db")

    assert result.code == 7
    assert "imported 7 messages" in result.out
    assert f"not imported: {log} at {size}, {size} bytes: the checksum of the batch is wrong" in result.err


def test_what_is_left_out_is_kept(invoke: Invoke, tmp_path: Path) -> None:
    log, kept = written(tmp_path / "kahadb"), tmp_path / "kept"
    size = len(batch(add("queue://Q", 10)))
    log.write_bytes(log.read_bytes()[:300] + b"\xff" + log.read_bytes()[301:])
    command = (
        "import",
        str(tmp_path / "kahadb"),
        "--url",
        f"sqlite:///{tmp_path}/there.db",
        "--keep",
        str(kept),
    )

    for _ in range(2):
        result = invoke(*command)
        assert f"1 skipped record is in {kept}" in result.err
    [line] = (kept / "index.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "record": "000001.record", "file": str(log), "offset": size, "bytes": size,
        "reason": "the checksum of the batch is wrong",
    }  # fmt: skip
    assert (kept / "000001.record").read_bytes() == log.read_bytes()[size : 2 * size]
    (kept / "mine").touch()
    refused = invoke(*command)
    assert (refused.code, "has other files, as mine" in refused.err) == (3, True)


def test_a_running_broker(invoke: Invoke, tmp_path: Path) -> None:
    written(tmp_path)
    lock = FileLock(tmp_path / "lock")
    try:
        refused = invoke("import", str(tmp_path), "--url", f"sqlite:///{tmp_path}/there.db")
    finally:
        lock.release()

    assert refused.code == 4
    assert "stop the broker" in refused.err


def test_into_the_directory_of_the_broker(invoke: Invoke, tmp_path: Path) -> None:
    """The file of the broker names the directory with its files; its lock is ours, too."""
    written(tmp_path / "kahadb")
    (tmp_path / "kahadb" / "lock").touch()
    file = tmp_path / "activemq.xml"
    adapter = f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb"/></persistenceAdapter>'
    file.write_text(f"<broker>{adapter}</broker>")

    assert invoke("--config", str(file), "import", str(tmp_path / "kahadb")).code == 0
    assert len(invoke("--config", str(file), "browse", "Q", "--json").lines) == 5


def test_nothing_to_import(invoke: Invoke, tmp_path: Path) -> None:
    refused = invoke("import", str(tmp_path))
    assert (refused.code, "kahadb:PLACE" in refused.err) == (1, True)


def test_a_transaction_in_doubt_is_listed(invoke: Invoke, tmp_path: Path) -> None:
    from jdbcstore.message.ids import XATransactionId

    xid, url = XATransactionId(7, b"g", b"b"), f"sqlite:///{tmp_path}/there.db"
    write_log(tmp_path / "kahadb", 1, [add("queue://Q", 1, transaction=xid), outcome(3, xid)])

    assert invoke("import", str(tmp_path / "kahadb"), "--url", url, "--json").json["in_doubt"] == 1
    [branch] = invoke("xa", "list", "--url", url, "--json").lines
    assert branch["writes"][0]["added"] == 1


def test_artemis(invoke: Invoke, tmp_path: Path) -> None:
    unpack("files", tmp_path)
    url = f"sqlite:///{tmp_path}/there.db"

    planned = invoke("import", f"artemis:{tmp_path / 'data'}", "--dry-run", "--url", url)
    assert (planned.code, "189 messages can be imported" in planned.out) == (0, True)
    (tmp_path / "data" / "large-messages" / "644.msg").unlink()
    found = invoke("import", str(tmp_path / "data"), "--url", url, "--json")
    assert (found.code, found.json["imported"], found.json["queues"]) == (7, 188, 25)


def test_messages_of_a_queue_that_is_not_known_are_kept(invoke: Invoke, tmp_path: Path) -> None:
    unpack("files", tmp_path)
    data, kept = tmp_path / "data", tmp_path / "kept"
    bindings = data / "bindings" / "activemq-bindings-1.bindings"
    raw = bindings.read_bytes()
    at = raw.rindex("LARGE".encode("utf-16-le"))
    bindings.write_bytes(raw[: at - 30] + b"?" * 30 + raw[at:])

    found = invoke("import", f"artemis:{data}", "--dry-run", "--json", "--keep", str(kept)).json

    lines = [json.loads(line) for line in (kept / "index.jsonl").read_text().splitlines()]
    records = [line for line in lines if line["reason"] == "it has no counterpart"]
    assert (found["kept"], len(records)) == (len(lines), 7)
    assert len({record["of"] for record in records}) == 1
    for record in records:
        content = (kept / record["record"]).read_bytes()
        assert content[:40] == Path(record["file"]).read_bytes()[record["offset"] :][:40]
    assert max(record["bytes"] for record in records) > 40_000


def test_artemis_into_a_store_with_a_journal(invoke: Invoke, tmp_path: Path) -> None:
    unpack("files", tmp_path)
    (tmp_path / "kahadb").mkdir()
    file = tmp_path / "activemq.xml"
    adapter = f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb"/></persistenceAdapter>'
    file.write_text(f"<broker>{adapter}</broker>")

    command = ("--config", str(file), "import", f"artemis:{tmp_path / 'data'}", "--json")
    assert invoke(*command).json["imported"] == 189
    assert invoke("--config", str(file), "send", "CORE", "one more").code == 0
    assert len(invoke("--config", str(file), "browse", "CORE", "--json").lines) == 16 + 1
    assert (tmp_path / "kahadb" / "journal").is_dir()

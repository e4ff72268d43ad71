"""Other versions of Spark: from 4.0 on answers of the views, and streams, also into lakes; and decode.

They are found in the folder that ``JDBCSTORE_TEST_SPARKS`` names, each in a folder of its own, made by
``pip install --no-deps --target FOLDER/4.0.1 pyspark==4.0.1``: half a gigabyte each, and minutes to build.
``python -m tests.versions`` copies the jars of Delta and Iceberg into ``.build/lakes``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT, maven
from tests.support.analytics.corpus import corpus
from tests.support.analytics.late import store
from tests.support.analytics.producing import next_id
from tests.support.analytics.questions import QUESTIONS, plain
from tests.support.analytics.streams import LONG, Producers
from tests.support.databases import Database

pytest.importorskip("pyspark")

from tests.support.analytics import standalone

VARIABLE = "JDBCSTORE_TEST_SPARKS"
SCRIPTS = ROOT / "tests" / "support" / "analytics"
FOLDER = os.environ.get(VARIABLE)
VERSIONS = sorted(path.name for path in Path(FOLDER).iterdir() if path.is_dir()) if FOLDER else []
OLDER = [version for version in VERSIONS if version.startswith("3.")]
NEWER = [version for version in VERSIONS if version not in OLDER]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not VERSIONS, reason=f"{VARIABLE} names no folder with other versions of Spark"),
]


def environment_of(version: str) -> dict[str, str]:
    return {"PYTHONPATH": f"{FOLDER}/{version}{os.pathsep}{ROOT}", "PYSPARK_PYTHON": sys.executable}


def asked_of(version: str, script: str, *arguments: str) -> dict[str, Any]:
    """What a script prints with a version."""
    done = standalone.run_application(SCRIPTS / script, arguments, **environment_of(version))
    assert done.returncode == 0, done.stderr
    answered: dict[str, Any] = json.loads(done.stdout)
    assert answered["version"] == version
    return answered


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.backends("sqlite")
def test_an_older_version_decodes_and_reads_parquet(url: str, version: str, tmp_path: Path) -> None:
    with jdbcstore.open(url) as store:
        for number in range(3):
            store.queue("Q").add_message(Message(f"beer {number}", jms_type="x", properties={"n": number}))
    answered = asked_of(version, "older.py", url.removeprefix("sqlite:///"), str(tmp_path))
    right = [[number + 1, "x", f"beer {number}", number] for number in range(3)]
    assert answered["parquet"] == answered["decoded"] == right
    assert "connect needs 4.0 or newer" in answered["connected"]


@pytest.mark.parametrize("version", NEWER)
def test_the_same_with_another_version(databases: dict[str, Database], version: str, tmp_path: Path) -> None:
    asked = {
        "urls": {name: each.url for name, each in databases.items()},
        "questions": {name: [question.asked() for question in QUESTIONS.values()] for name in databases},
    }
    given = tmp_path / "asked.json"
    given.write_text(json.dumps({**asked, "stream": databases["sqlite"].url, "output": str(tmp_path)}))
    answered = asked_of(version, "cluster.py", str(given))
    rows = plain(corpus())
    right = [question.answer(rows) for question in QUESTIONS.values()]
    for name, answers in answered["answers"].items():
        found = [
            question.normal(answer) for question, answer in zip(QUESTIONS.values(), answers, strict=True)
        ]
        assert found == right, name
    assert answered["streamed"] == len(rows)


@pytest.mark.parametrize("version", NEWER)
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.backends("postgresql")
def test_a_stream_into_a_lake(database: Database, version: str, kind: str, tmp_path: Path) -> None:
    """Each message once, although the stream is killed, and messages commit late and out of order."""
    jars = ROOT / ".build" / "lakes" / f"{kind}-{version.rpartition('.')[0]}"
    if not jars.is_dir():
        pytest.skip(maven.why_missing(jars))
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    arguments = (database.url, kind, str(jars), str(tmp_path))
    command = [sys.executable, str(SCRIPTS / "into_lake.py"), *arguments]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment_of(version)}
    commits, producers = tmp_path / "checkpoint" / "commits", Producers(database.url, tmp_path)
    engine = database.engine.execution_options(isolation_level="READ COMMITTED")
    with engine.connect() as late, engine.connect() as early:
        first = next_id(tmp_path / "counter")
        store(late, first)
        store(early, next_id(tmp_path / "counter"))
        early.commit()
        streaming = subprocess.Popen(command, env=environment, start_new_session=True)

        def has_committed(batches: int) -> bool:
            assert streaming.poll() is None, "the stream has ended"
            return len([*commits.glob("[0-9]*")]) >= batches

        try:
            wait_until(lambda: has_committed(1), LONG, what="a batch")
            producers.start()
            wait_until(lambda: has_committed(3), LONG, what="batches")
        finally:
            os.killpg(streaming.pid, signal.SIGKILL)
            streaming.wait()
        producers.finish()
        late.commit()
    answered = asked_of(version, "into_lake.py", *arguments, "--to-the-end")
    stored = [id_ for (id_,) in database.rows("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")]
    assert first in stored
    assert sorted(answered["ids"]) == stored

"""Other versions of Spark: the same answers of the views from 4.0 on, streams from 4.2 on, and decode.

They are found in the folder that ``JDBCSTORE_TEST_SPARKS`` names, each in a folder of its own, made by
``pip install --no-deps --target FOLDER/4.0.1 pyspark==4.0.1``: half a gigabyte each, and minutes to build."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message
from tests.support import ROOT
from tests.support.analytics.corpus import corpus
from tests.support.analytics.questions import QUESTIONS, plain
from tests.support.databases import Database

pytest.importorskip("pyspark")

from tests.support.analytics import standalone

VARIABLE = "JDBCSTORE_TEST_SPARKS"
SCRIPTS = ROOT / "tests" / "support" / "analytics"
FOLDER = os.environ.get(VARIABLE)
VERSIONS = sorted(path.name for path in Path(FOLDER).iterdir() if path.is_dir()) if FOLDER else []
OLDER = [version for version in VERSIONS if version.startswith("3.")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not VERSIONS, reason=f"{VARIABLE} names no folder with other versions of Spark"),
]


def asked_of(version: str, script: str, *arguments: str) -> dict[str, Any]:
    """What a script prints with a version."""
    path = f"{FOLDER}/{version}{os.pathsep}{ROOT}"
    done = standalone.run_application(
        SCRIPTS / script, arguments, PYTHONPATH=path, PYSPARK_PYTHON=sys.executable
    )
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


@pytest.mark.parametrize("version", [version for version in VERSIONS if version not in OLDER])
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
    old = tuple(map(int, version.split(".")[:2])) < (4, 2)
    if old:
        assert "needs Spark 4.2 or newer, connect() does not" in answered["streamed"]
    else:
        assert answered["streamed"] == len(rows)

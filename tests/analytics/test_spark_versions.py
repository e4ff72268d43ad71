"""Other versions of Spark: the same answers of the views, and streams from 4.2 on.

They are found in the folder that ``JDBCSTORE_TEST_SPARKS`` names, each in a folder of its own, made by
``pip install --no-deps --target FOLDER/4.0.1 pyspark==4.0.1``: half a gigabyte each, and minutes to build."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.analytics.corpus import corpus
from tests.support.analytics.questions import QUESTIONS, plain
from tests.support.databases import Database

pytest.importorskip("pyspark")

from tests.support.analytics import standalone

VARIABLE = "JDBCSTORE_TEST_SPARKS"
SCRIPT = ROOT / "tests" / "support" / "analytics" / "cluster.py"
FOLDER = os.environ.get(VARIABLE)
VERSIONS = sorted(path.name for path in Path(FOLDER).iterdir() if path.is_dir()) if FOLDER else []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not VERSIONS, reason=f"{VARIABLE} names no folder with other versions of Spark")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_with_another_version(databases: dict[str, Database], version: str, tmp_path: Path) -> None:
    asked = {
        "urls": {name: each.url for name, each in databases.items()},
        "questions": {name: [question.asked() for question in QUESTIONS.values()] for name in databases},
    }
    given = tmp_path / "asked.json"
    given.write_text(json.dumps({**asked, "stream": databases["sqlite"].url, "output": str(tmp_path)}))
    path = f"{FOLDER}/{version}{os.pathsep}{ROOT}"
    done = standalone.run_application(SCRIPT, [str(given)], PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    answered = json.loads(done.stdout)
    assert answered["version"] == version
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

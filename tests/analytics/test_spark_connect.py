"""The same answers through Spark Connect, whose client and server are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.analytics.corpus import corpus
from tests.support.analytics.questions import QUESTIONS, plain
from tests.support.databases import Database

pytestmark = pytest.mark.timeout(900)

ROWS = plain(corpus())
RIGHT = {name: question.answer(ROWS) for name, question in QUESTIONS.items()}


@pytest.fixture
def said(stores: dict[str, Database], spark_home: Path, tmp_path: Path) -> dict[str, Any]:
    """What a client of Spark Connect says of the stores."""
    pytest.importorskip("grpc")
    urls = json.dumps({name: database.url for name, database in stores.items()})
    lost = f"sqlite:///{tmp_path}/nowhere.db"
    with (tmp_path / "stderr").open("w") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.analytics.connecting", urls, lost],
            cwd=ROOT,
            env={**os.environ, "SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert done.returncode == 0, (tmp_path / "stderr").read_text()[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_spark_connect(said: dict[str, Any], stores: dict[str, Database]) -> None:
    wrong = {
        (store, name): (answer, RIGHT[name])
        for store in stores
        for name, answer in said["answers"][store].items()
        if answer != RIGHT[name]
    }
    assert wrong == {}
    assert {name for store in stores for name in said["answers"][store]} == {*RIGHT}
    assert said["joined"] == [[3, "three"], [5, "five"]]
    assert said["picture"] == [len(ROWS), len({row.body for row in ROWS})]
    open_ = [store for store in stores if store != [*stores][-2]]
    names = [f"jdbcstore.{store}.{view}" for store in open_ for view in said["views"]]
    assert said["left"] == sorted([*names, "own"])
    assert said["history"] == [["waiting", sum(row.xid is None for row in ROWS)]]
    assert said["still"] == said["plain"] == len(ROWS)
    assert said["lost"][0] in ("StoreUnavailable", "ConfigurationError", "SchemaError")
    assert said["command"] == [0, f'{{"first": {min(row.id for row in ROWS)}}}\n', ""]
    code, out, error = said["wrong"]
    assert (code, out, error.count("\n")) == (1, "", 1), error
    assert "nothing" in error
    assert "decode_" not in said["plan"].partition("Optimized Logical Plan")[2]
    assert not any(str(stores[name].password) in said["plan"] for name in stores if name != "sqlite")

"""On clusters whose workers have neither jdbcstore nor the driver's files: the same answers."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.analytics.vendors import VENDORS, find_jar
from tests.support import ROOT
from tests.support.databases import Database
from tests.support.jvm import QUICK
from tests.support.require import unavailable

pytest.importorskip("pyspark")

from jdbcstore.tools.archive import Archive
from tests.support.analytics import standalone
from tests.support.analytics.corpus import corpus
from tests.support.analytics.questions import QUESTIONS, Answer, plain

SCRIPT = ROOT / "tests" / "support" / "analytics" / "cluster.py"
SERVERS = ("postgresql", "mariadb")
ROWS = plain(corpus())
FIRST = "SELECT count(*) AS n, max(body_text) AS last FROM messages_decoded"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.defaultJavaOptions": " ".join(QUICK),
    "spark.executor.defaultJavaOptions": " ".join(QUICK),
    "spark.executor.memory": "768m",
    # Begin when both workers are there.
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "200s",
    # Of the wait for a Python to start, on a machine that has much else to do.
    "spark.python.authenticate.socketTimeout": "120s",
}


@pytest.fixture
def cluster(
    databases: dict[str, Database], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Iterator[standalone.Cluster]:
    """Two workers, for which the package, its tests, this test's files and the drivers are not there."""
    if reason := standalone.missing():
        unavailable("namespaces", reason)
    jars = {jar.parent for vendor in VENDORS.values() if (jar := find_jar(vendor))}
    files = {tmp_path}
    if not (own := Path(str(databases["sqlite"].engine.url.database))).is_relative_to(tmp_path):
        files.add(own.parent)
    hidden = [ROOT / "jdbcstore", ROOT / "tests", *sorted(jars | files)]
    with standalone.standalone(tmp_path_factory.mktemp("cluster"), hidden) as started:
        yield started


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where there are Pythons."""
    return tmp_path_factory.mktemp("python")


@pytest.fixture
def conf(home: Path) -> dict[str, str]:
    """The settings of an application whose workers have a bare Python."""
    return {
        **SETTINGS,
        "spark.pyspark.python": str(standalone.python_with(home / "bare", standalone.DECODING)),
    }


@pytest.mark.slow
@pytest.mark.timeout(1800)  # six Java machines start
def test_the_same_where_workers_have_neither_the_package_nor_its_files(
    databases: dict[str, Database],
    cluster: standalone.Cluster,
    conf: dict[str, str],
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    # What a database answers is the same here as in a session of one process: half of the questions, once.
    step = 2 if pytestconfig.getoption("--whole") else 4
    chosen = {"postgresql": [*QUESTIONS][::step], "mariadb": [*QUESTIONS][1::step]}
    asked: dict[str, Any] = {
        "urls": {name: databases[name].url for name in SERVERS},
        "questions": asked_of(chosen),
        "file": databases["sqlite"].url,
        "archive": str(tmp_path / "archive"),
        "command": [
            *("sql", "--json", FIRST, "--url", databases["postgresql"].url, "--master", cluster.url),
            *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        ],
    }
    given = tmp_path / "asked.json"
    given.write_text(json.dumps(asked))
    (tmp_path / "temporary").mkdir()
    environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "temporary")}
    done = standalone.run_application(SCRIPT, [str(given)], **environment)
    assert done.returncode == 0, done.stderr
    answered = json.loads(done.stdout)
    last = max((row.body for row in ROWS if row.body is not None), key=str.encode)
    assert (answered["code"], json.loads(answered["printed"])) == (0, {"n": len(ROWS), "last": last})
    check_answers(answered["answers"], chosen)
    assert "is not on" in answered["error"]
    assert "use a database server, a local master, or a folder that every worker has" in answered["error"]
    # Each worker has a folder of that name which the others do not see.
    assert "only 0 of them are there: each worker has its own folder of that name" in answered["unseen"]
    assert Archive(tmp_path / "archive").manifests() == []
    check_places(answered["places"])


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.timeout(1800)
def test_the_same_by_spark_submit(
    databases: dict[str, Database],
    cluster: standalone.Cluster,
    conf: dict[str, str],
    home: Path,
    tmp_path: Path,
) -> None:
    """The driver has no jdbcstore either, only what it needs."""
    packed = zip_package(tmp_path / "jdbcstore.zip")
    chosen = {"postgresql": [*QUESTIONS][2::3]}
    given = tmp_path / "asked.json"
    urls = {name: databases[name].url for name in chosen}
    given.write_text(json.dumps({"urls": urls, "questions": asked_of(chosen)}))
    driver = standalone.python_with(home / "driver")
    found = {str(jar) for name in SERVERS if (jar := find_jar(VENDORS[name]))}
    submit = [
        *(str(Path(standalone._place("pyspark")) / "bin" / "spark-submit"), "--master", cluster.url),
        *("--py-files", str(packed), "--jars", ",".join(sorted(found))),
        *("--conf", f"spark.pyspark.driver.python={driver}"),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
    ]
    environment = {"PYTHONPATH": "", "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    done = standalone.run_application(SCRIPT, [str(given)], before=submit, **environment)
    assert done.returncode == 0, done.stderr
    submitted = json.loads(done.stdout)
    check_answers(submitted["answers"], chosen)
    check_places(submitted["places"])


def asked_of(chosen: dict[str, list[str]]) -> dict[str, list[str]]:
    """The questions with these names."""
    return {store: [QUESTIONS[name].asked() for name in names] for store, names in chosen.items()}


def check_answers(answers: dict[str, list[Answer]], chosen: dict[str, list[str]]) -> None:
    """Each store gave the answers of a plain decode to the questions that it was asked."""
    found = {
        store: {
            name: QUESTIONS[name].normal(answer) for name, answer in zip(chosen[store], given, strict=True)
        }
        for store, given in answers.items()
    }
    assert found == {
        store: {name: QUESTIONS[name].answer(ROWS) for name in names} for store, names in chosen.items()
    }


def check_places(places: list[tuple[str, list[str], int]]) -> None:
    """The package came to both workers, which decoded without what only a driver needs."""
    files, imported, workers = zip(*places, strict=True)
    assert all("jdbcstore.zip" in file for file in files)
    assert not any(imported)
    assert len({*workers}) == 2


def zip_package(target: Path) -> Path:
    """As the page says: ``zip -r jdbcstore.zip jdbcstore``."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in (ROOT / "jdbcstore").rglob("*"):
            if file.is_file() and file.suffix != ".pyc":
                archive.write(file, file.relative_to(ROOT))
    return target

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

from tests.support.analytics import standalone
from tests.support.analytics.pints import QUESTIONS, plain

SCRIPT = ROOT / "tests" / "support" / "analytics" / "cluster.py"
SERVERS = ("postgresql", "mariadb")
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
    files = {Path(str(databases["sqlite"].engine.url.database)).parent, tmp_path}
    hidden = [ROOT / "jdbcstore", ROOT / "tests", *sorted(jars | files)]
    with standalone.standalone(tmp_path_factory.mktemp("cluster"), hidden) as started:
        yield started


@pytest.mark.slow
@pytest.mark.timeout(1800)  # seven Java machines start, and four more
def test_the_same_where_workers_have_neither_the_package_nor_its_files(
    databases: dict[str, Database],
    cluster: standalone.Cluster,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("python")
    bare = standalone.python_with(home / "bare", standalone.DECODING)
    conf = {**SETTINGS, "spark.pyspark.python": str(bare)}
    asked: dict[str, Any] = {
        "urls": {name: databases[name].url for name in SERVERS},
        "questions": QUESTIONS,
        "file": databases["sqlite"].url,
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
    assert (answered["code"], json.loads(answered["printed"])) == (0, {"n": 40, "last": "9 pints 🍺"})
    assert answered["answers"] == {name: plain(databases[name]) for name in SERVERS}
    assert "is not on" in answered["error"]
    assert "use a database server, a local master, or a folder that every worker has" in answered["error"]
    check_places(answered["places"])

    # The same by spark-submit, whose driver has no jdbcstore either, only what it needs.
    packed = zip_package(tmp_path / "jdbcstore.zip")
    given.write_text(json.dumps({"urls": asked["urls"], "questions": QUESTIONS}))
    driver = standalone.python_with(home / "driver")
    found = {str(jar) for name in SERVERS if (jar := find_jar(VENDORS[name]))}
    submit = [
        *(str(Path(standalone._place("pyspark")) / "bin" / "spark-submit"), "--master", cluster.url),
        *("--py-files", str(packed), "--jars", ",".join(sorted(found))),
        *("--conf", f"spark.pyspark.driver.python={driver}"),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
    ]
    environment["PYTHONPATH"] = ""
    done = standalone.run_application(SCRIPT, [str(given)], before=submit, **environment)
    assert done.returncode == 0, done.stderr
    submitted = json.loads(done.stdout)
    assert submitted["answers"] == answered["answers"]
    check_places(submitted["places"])


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

"""On clusters whose workers have neither jdbcstore nor the driver's files: the same answers."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.analytics.vendors import VENDORS, find_jar
from jdbcstore.message import openwire
from tests.conftest import new_database
from tests.support import ROOT
from tests.support.backends import BACKENDS
from tests.support.databases import Database
from tests.support.jvm import QUICK
from tests.support.pool import ServerPool
from tests.support.require import unavailable

pytest.importorskip("pyspark")

from tests.support.analytics import standalone

SCRIPT = ROOT / "tests" / "support" / "analytics" / "cluster.py"
SERVERS = ("postgresql", "mariadb")
QUESTIONS = (
    "SELECT destination, count(*) FROM messages GROUP BY destination ORDER BY destination",
    "SELECT sum(properties['n'].long), count(DISTINCT body_text), count(error) FROM messages_decoded",
    "SELECT id, destination FROM messages ORDER BY id DESC LIMIT 2",
    "SELECT id, body_text FROM messages_decoded WHERE properties['n'].long % 3 = 1 ORDER BY id",
    "SELECT priority, type, max(message_size) FROM messages_decoded GROUP BY ALL ORDER BY ALL",
    "SELECT destination, depth, bytes FROM destinations ORDER BY destination",
)
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


def plain(database: Database) -> list[list[list[Any]]]:
    """The answers, of the rows and the codec alone."""
    stored = database.rows("SELECT ID, CONTAINER, PRIORITY, MSG FROM ACTIVEMQ_MSGS ORDER BY ID")
    rows = [
        (id_, name, priority, bytes(msg), openwire.decode(bytes(msg))) for id_, name, priority, msg in stored
    ]
    depths = Counter(name for _, name, *_ in rows)
    sizes = Counter[str]()
    largest: dict[tuple[int, str], int] = {}
    for _, name, priority, msg, message in rows:
        sizes[name] += len(msg)
        key = (priority, str(message.body_type))
        largest[key] = max(len(msg), largest.get(key, 0))
    numbers = [int(message.properties["n"]) for *_, message in rows]  # type: ignore[arg-type]
    return [
        [[name, depths[name]] for name in sorted(depths)],
        [[sum(numbers), len({message.body for *_, message in rows}), 0]],
        [[id_, name] for id_, name, *_ in rows[:-3:-1]],
        [[id_, message.body] for (id_, *_, message), n in zip(rows, numbers, strict=True) if n % 3 == 1],
        [[*key, largest[key]] for key in sorted(largest)],
        [[name, depths[name], sizes[name]] for name in sorted(depths)],
    ]


def fill(database: Database, count: int = 40) -> None:
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for n in range(count):
            body = f"{n} pints 🍺" if n % 5 else n.to_bytes(4, "big")
            queue = store.queue("FEW" if n % 4 == 3 else "MANY")
            queue.add_message(Message(body, properties={"n": n}))


@pytest.fixture
def databases(
    server_pool: ServerPool, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[dict[str, Database]]:
    """One of each vendor, with the same messages."""
    with ExitStack() as opened:
        databases = {}
        for backend in BACKENDS:
            if backend.id not in ("sqlite", *SERVERS):
                continue
            if find_jar(VENDORS[backend.id]) is None:
                unavailable("spark", f"no JDBC driver for {backend.id}")
            (tmp_path / backend.id).mkdir()
            database = new_database(backend, server_pool, tmp_path / backend.id, request)
            opened.callback(database.close)
            databases[backend.id] = database
            fill(database)
        yield databases


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
    given.write_text(json.dumps(asked | {"command": [], "file": ""}))
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

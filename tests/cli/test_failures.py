"""Bad input and absent databases: an exit code, one line on stderr, no traceback, no secret."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from jdbcstore import JdbcStore, Message
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.testing.polling import wait_until
from tests.cli.conftest import Invoke
from tests.support import ROOT
from tests.support.cli.command_line import CommandLine, Result
from tests.support.databases import Database

OpenLocal = Callable[[], JdbcStore]
SECRET = "hush-hush"


def complaint(result: Result) -> str:
    """The one line on stderr."""
    (line,) = result.err.splitlines()
    assert line.startswith("jdbcstore: ")
    assert SECRET not in line
    return line


@pytest.fixture
def closed_port() -> int:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("url", "code", "says"),
    [
        (f"frobnicate://u:{SECRET}@h/d", 3, "no adapter for database 'frobnicate'"),
        (f"jdbc:frobnicate://h/d?password={SECRET}", 3, "no adapter"),
        (f"no url at all {SECRET}", 3, "cannot be parsed"),
        ("sqlite:///nowhere/at/all.db", 3, "does not exist"),
        (f"postgresql+pg8000://u:{SECRET}@h/d", 3, "'pg8000' is not supported"),
        ("sqlite:///:memory:", 3, "SQLite needs a file"),
    ],
)
def test_a_url_that_cannot_work(invoke: Invoke, url: str, code: int, says: str) -> None:
    result = invoke("send", "Q", "x", "--url", url)

    assert result.code == code
    assert says in complaint(result)


def test_an_unreachable_server(invoke: Invoke, closed_port: int) -> None:
    for scheme in ("postgresql", "mysql"):
        result = invoke("status", "--url", f"{scheme}://u:{SECRET}@127.0.0.1:{closed_port}/d")

        assert result.code == 4
        assert "cannot reach" in complaint(result)


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")
def test_a_wrong_password(cli: CommandLine, database: Database) -> None:
    url = make_url(database.url).set(password=SECRET)

    result = cli.run("status", "--url", url.render_as_string(hide_password=False))

    assert result.code == 4
    assert "refused the login" in complaint(result)


def test_a_missing_driver(local: CommandLine, tmp_path: Path) -> None:
    blocker = tmp_path / "blocker"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text("import sys; sys.modules['psycopg'] = None\n")
    local.environment["PYTHONPATH"] += f":{blocker}"

    result = local.run("status", "--url", f"postgresql://u:{SECRET}@h/d")

    assert result.code == 3
    assert "pip install 'psycopg[binary]>=3.2'" in complaint(result)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('table_prefix = "x\'"', "table_prefix"),
        ("no toml", "store.toml: this is not TOML"),
        ("frobnicate = 1", "store.toml: unknown option 'frobnicate'"),
        ("url = 5", "store.toml: url must be a string"),
        (f'url = "frobnicate://u:{SECRET}@h/d"', "no adapter"),
    ],
)
def test_a_configuration_that_cannot_work(invoke: Invoke, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "store.toml").write_text(text)

    result = invoke("--config", "store.toml", "send", "Q", "x")

    assert result.code == 3
    assert says in complaint(result)


def test_a_configuration_that_is_not_there(invoke: Invoke) -> None:
    result = invoke("--config", "store.toml", "status")

    assert result.code == 3
    assert "cannot read store.toml" in complaint(result)


def test_missing_tables_that_are_not_to_be_made(cli: CommandLine, tmp_path: Path, database: Database) -> None:
    (tmp_path / "store.toml").write_text("create_tables_on_startup = false")

    result = cli.run("--config", "store.toml", "send", "Q", "x")

    assert result.code == 5
    assert "run jdbcstore init" in complaint(result)
    assert database.password is None or database.password not in result.err


@pytest.mark.backends("mariadb", "mariadb-pyodbc", "mysql")
def test_a_message_beyond_the_packet_limit(cli: CommandLine, database: Database) -> None:
    [(limit,)] = database.rows("SELECT @@max_allowed_packet")

    result = cli.run("send", "Q", "-", stdin=b"before\n" + b"x" * (limit + 1) + b"\nbehind\n")

    assert result.code == 2
    assert "stored before the error" in result.err
    assert "the database accepts at most" in result.err.splitlines()[-1]
    assert [line["body"] for line in cli("browse", "Q", "--json").lines] == ["before"]


def test_the_nearest_setting_wins(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def place(*options: str) -> str:
        result = invoke(*options, "init", "--json")
        assert result.code == 0, result.err
        return str(result.json["url"])

    (tmp_path / "store.toml").write_text('url = "sqlite:///file.db"\ntable_prefix = "X_"')

    assert place() == "sqlite:///activemq-data/jdbcstore.db"
    assert place("--config", "store.toml") == "sqlite:///file.db"
    monkeypatch.setenv("JDBCSTORE_URL", "sqlite:///environment.db")
    assert place("--config", "store.toml") == "sqlite:///environment.db"
    assert place("--url", "jdbc:sqlite:option.db") == "sqlite:///option.db"
    tables = invoke("status", "--json", "--config", "store.toml", "--url", "sqlite:///file.db").json["tables"]
    assert "X_ACTIVEMQ_MSGS" in tables


def test_common_options_on_either_side(invoke: Invoke) -> None:
    before = invoke("--url", "sqlite:///x.db", "--json", "init")
    behind = invoke("init", "--json", "--url", "sqlite:///x.db")

    assert before.json == behind.json


def test_debug_prints_the_traceback_and_no_secret(local: CommandLine, closed_port: int) -> None:
    result = local.run("--debug", "status", "--url", f"postgresql://u:{SECRET}@127.0.0.1:{closed_port}/d")

    assert result.code == 4
    assert "Traceback (most recent call last)" in result.err
    assert SECRET not in result.err


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What a shell has started in the background ignores an interrupt, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_what_was_stored(local: CommandLine, local_store: OpenLocal) -> None:
    local_store().close()

    def count() -> int:
        with local_store() as store:
            return store.queue("Q").message_count()

    pipe = subprocess.PIPE
    with local.start("send", "Q", "-", stdin=pipe, stdout=pipe, stderr=pipe) as sending:
        assert sending.stdin is not None
        assert sending.stderr is not None
        sending.stdin.write(b"one\n")
        sending.stdin.flush()
        wait_until(lambda: count() == 1)
        sending.send_signal(signal.SIGINT)
        err = sending.stderr.read().decode()
        assert sending.wait(180) == 130

    assert "1 message stored" in err
    assert err.splitlines()[-1] == "jdbcstore: interrupted"
    assert "Traceback" not in err
    assert count() == 1


def test_help_documents_the_exit_codes(invoke: Invoke) -> None:
    for option in ("--help", "-h"):
        result = invoke(option)
        assert result.code == 0
        for code in (0, 1, 2, 3, 4, 5, 6, 7, 130, 141):
            assert any(line.split()[:1] == [str(code)] for line in result.out.splitlines())


def test_the_documents_name_every_exit_code() -> None:
    document = (ROOT / "docs" / "cli.md").read_text()

    for code in ExitCode:
        assert f"| {int(code)} | {code.text} |" in document


@pytest.mark.parametrize(
    "arguments",
    [
        ("purge", "Q"),
        ("consume", "Q"),
        ("cleanup",),
        ("unsubscribe", "topic://T", "--client-id", "c", "--subscription", "s"),
        ("dlq", "purge", "--all"),
        ("xa", "commit", "XID:[86,globalId=01020304,branchId=0902]"),
        ("migrate", "--dry-run"),
        ("migrate", "--sql"),
    ],
)
def test_a_mistyped_file_is_not_made(invoke: Invoke, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments, "--url", "sqlite:///mistyped.db")

    assert result.code == 5
    assert "there is no SQLite file mistyped.db" in result.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("command", ["status", "lock", "doctor", "schema"])
def test_a_file_that_was_there_is_not_a_new_store(invoke: Invoke, tmp_path: Path, command: str) -> None:
    """It may be on a disk that is not mounted: to create it would begin a second, empty store."""
    url = f"sqlite:///{tmp_path}/mq.db"
    assert invoke("send", "Q", "hello", "--url", url).code == 0
    (tmp_path / "mq.db").unlink()

    result = invoke(*((command, "check") if command == "schema" else (command,)), "--url", url)

    assert result.code == 4
    assert "is the disk mounted?" in result.err + result.out
    assert not (tmp_path / "mq.db").exists()


def test_an_empty_url_is_not_the_default_store(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("send", "--url", "", "Q", "x")

    assert result.code == 2
    assert "--url" in result.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("mq.db", "for the SQLite file mq.db, write sqlite:///mq.db"),
        ("memory:", "a store that lasts as long as its process"),
        ("sqlite:///:memory:", "jdbcstore.open('memory:')"),
        ("postgras://u@h/d", "did you mean postgresql?"),
    ],
)
def test_a_url_that_nearly_works(invoke: Invoke, url: str, advice: str) -> None:
    result = invoke("status", "--url", url)

    assert result.code == 3
    assert advice in result.err


def test_the_url_of_a_hosting_service(invoke: Invoke, closed_port: int) -> None:
    result = invoke("status", "--url", f"postgres://u:{SECRET}@127.0.0.1:{closed_port}/d")

    assert result.code == 4
    assert f"cannot reach postgresql+psycopg://u:***@127.0.0.1:{closed_port}/d" in result.err


def test_a_closed_output_loses_no_message(local: CommandLine, local_store: OpenLocal) -> None:
    with local_store() as store:
        store.queue("Q").add_message(Message("x"))

    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m jdbcstore consume Q >&-"],
        cwd=local.folder,
        env=local.environment,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr.partition(";")[0]) == (1, "jdbcstore: standard output is closed")
    with local_store() as store:
        assert store.queue("Q").message_count() == 1


def test_the_end_of_a_pipe_is_no_failure(local: CommandLine, local_store: OpenLocal) -> None:
    with local_store() as store:
        store.queue("Q").add_messages([Message("x" * 100) for _ in range(2_000)])

    piped = f"'{sys.executable}' -m jdbcstore browse Q | head -n 3 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", piped], cwd=local.folder, env=local.environment, capture_output=True)

    assert done.returncode == 141


def test_a_file_that_may_only_be_read(local: CommandLine, local_store: OpenLocal) -> None:
    with local_store() as store:
        store.queue("Q").add_message(Message("x"))
    folder = local.folder / "activemq-data"
    (folder / "jdbcstore.db").chmod(0o444)
    folder.chmod(0o555)
    # Root may write in spite of that, unless it gives the right to up.
    powerless = ["setpriv", "--bounding-set=-dac_override", "--"] if os.geteuid() == 0 else []

    def browse(*options: str) -> subprocess.CompletedProcess[str]:
        command = [*powerless, sys.executable, "-m", "jdbcstore", "browse", "Q", *options]
        return subprocess.run(
            command, cwd=local.folder, env=local.environment, capture_output=True, text=True
        )

    refused = browse()
    url = refused.stderr.split()[-1]
    read = browse("--json", "--url", url)
    folder.chmod(0o755)

    assert refused.returncode == 3
    assert "cannot be read without the right to write to it" in refused.stderr
    assert url == "sqlite:///file:activemq-data/jdbcstore.db?immutable=1&uri=true"
    assert (read.returncode, json.loads(read.stdout)["body"]) == (0, "x")


def test_an_interruption_while_modules_are_imported(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    command = [sys.executable, "-m", "jdbcstore", "status"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "jdbcstore: interrupted\n")

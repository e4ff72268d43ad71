"""A process that has ``jdbcstore`` imported, and forks one for each command line, for importing takes long.

``python -m tests.support.cli.zygote NUMBER`` takes the descriptor of a socket. Each packet on it has a
command line or a program, with the three files of its standard streams; the answer is the number of its
process, which is a child of the test's process, and not of this one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, NoReturn, cast

from sqlalchemy import make_url

from jdbcstore import StoreConfig, load_config
from jdbcstore.cli import main
from jdbcstore.database.session import DatabaseSession
from tests.support import ROOT
from tests.support.compiling import compile_all

WAIT = 280.0
_SIZE = 1 << 17
_SCHEMES = ("sqlite", "postgresql+psycopg", "mariadb+pymysql", "mariadb+pyodbc", "mysql+pymysql")
_LATER = (
    "concurrent.futures.thread",
    "encodings.idna",
    "jdbcstore.broker.queues.dead_letters",
    *(f"jdbcstore.cli.{name}" for name in ("browse", "dlq", "lock", "remote", "send", "status")),
    *(f"jdbcstore.cli.{name}" for name in ("spark_options", "sql", "subscriptions", "transfer", "xa")),
    *(f"jdbcstore.database.adapters.{name}" for name in ("mysql", "postgresql", "sqlite")),
    "jdbcstore.database.migrations.migration",
    "jdbcstore.lockers.database",
    "jdbcstore.lockers.shared_file",
    "jdbcstore.stores.claims",
    "jdbcstore.stores.jdbc.store",
    "jdbcstore.stores.opening",
    "pymysql.cursors",
    "rich.console",
    "rich.table",
    "urllib.request",
)
"""What commands import when they need it."""
_SPARK = ("jdbcstore.analytics.pushdown", "jdbcstore.analytics.spark_session", "pyspark.sql")
_OF = {
    "broker": (
        "jdbcstore.broker.console.pages",
        "jdbcstore.broker.management.jolokia",
        "jdbcstore.broker.openwire.session",
        "jdbcstore.broker.process.health",
        "jdbcstore.broker.process.host",
        "jdbcstore.broker.stomp.session",
        "jdbcstore.cli.broker",
    ),
    "doctor": (
        *("aiohttp", "argon2", "jpype", "oracledb", "pandas", "pyspark.sql", "stomp", "textual"),
        *("jdbcstore.cli.doctor", "jdbcstore.database.adapters.jdbc.jvm"),
        *(f"jdbcstore.database.adapters.{name}" for name in ("java", "mssql", "oracle")),
        *("sqlalchemy.dialects.mssql", "sqlalchemy.dialects.oracle"),
    ),
    "sql": _SPARK,
    "--master": _SPARK,
}
"""What those with this word import besides, once the first is asked for."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER"""


def serve(line: socket.socket) -> None:
    for scheme in _SCHEMES:
        with contextlib.suppress(ImportError):
            make_url(f"{scheme}://").get_dialect().import_dbapi()
    for name in _LATER:
        importlib.import_module(name)
    _begin()
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(line, _SIZE, 3)
        if not request:
            return
        asked = json.loads(request)
        for word in _OF.keys() & {*asked["arguments"]}:
            _import(word)
        pid = _fork()
        if not pid:
            line.close()
            _leave(_code_of(functools.partial(_run, streams, **asked)))
        for stream in streams:
            os.close(stream)
        line.send(str(pid).encode())


def _begin() -> None:
    """Do once what each command would do again: look at all options, and compile the statements of SQLite."""
    load_config(environment={})
    with (
        TemporaryDirectory() as folder,
        closing(DatabaseSession(f"sqlite:///{folder}/mq.db", StoreConfig())) as session,
    ):
        compile_all(session.statements)


@functools.cache
def _import(word: str) -> None:
    for name in _OF[word]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()


def _fork() -> int:
    """The number of a new process, or 0 in it: the orphan of one in between, and so the test's own child."""
    reading, writing = os.pipe()
    between = os.fork()
    if not between:
        if child := os.fork():
            os.write(writing, str(child).encode())
            os._exit(0)
        os.close(reading)
        os.close(writing)
        return 0
    os.close(writing)
    os.waitpid(between, 0)
    child = int(os.read(reading, 100))
    os.close(reading)
    return child


def _run(
    streams: list[int], arguments: list[str], folder: str, environment: dict[str, str], program: str | None
) -> int:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(streams[number], number)
        os.close(streams[number])
        # The one of before believes that it can seek.
        old = getattr(sys, name)
        mode, buffered = "w" if number else "r", 1 if name == "stderr" else -1
        new = open(number, mode, buffered, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    if program is not None:
        sys.argv = ["-c", *arguments]
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})  # noqa: S102 - a test's own
        return 0
    sys.argv = ["jdbcstore", *arguments]
    return main(arguments)


def _code_of(run: Callable[[], int]) -> int:
    """The exit code of what is run, as Python has it."""
    try:
        return run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
    except Exception:
        traceback.print_exc()
    return 1


def _leave(code: int) -> NoReturn:
    """End as Python does, except that objects are left: to take them apart takes longer than a command."""
    runtime: Any = threading, atexit
    runtime[0]._shutdown()
    runtime[1]._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            code = 120
    os._exit(code)


class Zygote:
    """The test's end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.cli.zygote", str(other.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # who forks should have one thread
            )
        self._line.settimeout(WAIT)

    def fork(
        self,
        arguments: list[str],
        folder: Path,
        environment: dict[str, str],
        streams: list[int],
        program: str | None,
    ) -> int:
        """The number of a process that runs a command line or a program, and is a child of this one."""
        request = {
            "arguments": arguments,
            "folder": str(folder),
            "environment": environment,
            "program": program,
        }
        with self._lock:
            _adopt(True)
            try:
                socket.send_fds(self._line, [json.dumps(request).encode()], streams)
                return int(self._line.recv(_SIZE))
            finally:
                _adopt(False)

    def run(
        self,
        arguments: tuple[str, ...],
        folder: Path,
        environment: dict[str, str],
        stdin: bytes,
        program: str | None = None,
    ) -> tuple[int, bytes, bytes]:
        """Run a command line to its end, or a program: its exit code, and what it wrote on both streams.

        If a signal killed it, the exit code is the negative number of that.
        """
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            process = Forked(arguments, folder, environment, program, stdin=given, stdout=out, stderr=err)
            try:
                code = process.wait(WAIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            return code, _read(out.fileno()), _read(err.fileno())

    def close(self) -> None:
        self._line.close()
        self._process.wait()


class Forked(subprocess.Popen[bytes]):
    """A command line or a program that the zygote has forked, with the streams that ``Popen`` is given."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        folder: Path,
        environment: dict[str, str],
        program: str | None = None,
        **streams: Any,
    ) -> None:
        self._program = program
        super().__init__(arguments, cwd=folder, env=environment, **streams)

    def _execute_child(self, arguments: Any, *others: Any) -> None:
        """In place of a fork and an exec of this process."""
        folder, environment = others[4:6]
        stdin, _, _, stdout, _, stderr = pipes = others[9:15]
        streams = [number if file == -1 else file for number, file in enumerate((stdin, stdout, stderr))]
        self.pid = zygote().fork([*arguments], folder, environment, streams, self._program)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _adopt(whether: bool) -> None:
    """Whether orphans of this process' children become its children."""
    ctypes.CDLL(None).prctl(_SUBREAPER, int(whether), 0, 0, 0)


def run_program(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a Python would run it with ``-c``, to its end; that would import everything anew."""
    code, out, err = zygote().run(arguments, ROOT, {**os.environ}, b"", program)
    return subprocess.CompletedProcess([program, *arguments], code, out.decode(), err.decode())


def fork_program(program: str, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
    """As :func:`run_program`, and left to the test to end it."""
    return cast(
        "subprocess.Popen[str]", Forked(arguments, ROOT, {**os.environ}, program, text=True, **streams)
    )


def fork_main(module: str, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
    """As :func:`fork_program`, for the ``main`` of a module."""
    return fork_program(f"import sys\nfrom {module} import main\nmain(*sys.argv[1:])", *arguments, **streams)


def _read(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


@functools.cache
def zygote() -> Zygote:
    """This process's, for as long as it lives."""
    made = Zygote()
    atexit.register(made.close)
    return made


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))

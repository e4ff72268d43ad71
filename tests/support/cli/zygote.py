"""A process that has ``jdbcstore`` imported, and forks one for each command line, for importing takes long.

``python -m tests.support.cli.zygote NUMBER`` takes the descriptor of a socket. Each packet on it has a
command line or a program, with the three files of its standard streams; the answer is the exit code.
"""

from __future__ import annotations

import atexit
import contextlib
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
from pathlib import Path
from tempfile import TemporaryFile

from sqlalchemy import make_url

from jdbcstore.cli import main
from tests.support import ROOT

WAIT = 280.0
_SIZE = 1 << 17
_SCHEMES = ("sqlite", "postgresql+psycopg", "mariadb+pymysql", "mariadb+pyodbc")
_LATER = (
    "jdbcstore.database.migrations.migration",
    "jdbcstore.lockers.shared_file",
    "pymysql.cursors",
    "rich.table",
)
"""What commands import when they need it."""


def serve(line: socket.socket) -> None:
    for scheme in _SCHEMES:
        with contextlib.suppress(ImportError):
            make_url(f"{scheme}://").get_dialect().import_dbapi()
    for name in _LATER:
        importlib.import_module(name)
    gc.freeze()  # else each child frees all of this when it ends, which takes five times as long as most do
    while True:
        request, streams, _, _ = socket.recv_fds(line, _SIZE, 3)
        if not request:
            return
        child = os.fork()
        if not child:
            line.close()
            sys.exit(_run(streams, **json.loads(request)))
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        line.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(
    streams: list[int], arguments: list[str], folder: str, environment: dict[str, str], program: str | None
) -> int:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
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


class Zygote:
    """The test's end. One command line runs at a time."""

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
            )
        self._line.settimeout(WAIT)

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
        request = {
            "arguments": arguments,
            "folder": str(folder),
            "environment": environment,
            "program": program,
        }
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            with self._lock:
                socket.send_fds(
                    self._line, [json.dumps(request).encode()], [file.fileno() for file in (given, out, err)]
                )
                code = int(self._line.recv(_SIZE))
            return code, _read(out.fileno()), _read(err.fileno())

    def close(self) -> None:
        self._line.close()
        self._process.wait()


def run_program(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a Python would run it with ``-c``, to its end; that would import everything anew."""
    code, out, err = zygote().run(arguments, ROOT, {**os.environ}, b"", program)
    return subprocess.CompletedProcess([program, *arguments], code, out.decode(), err.decode())


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

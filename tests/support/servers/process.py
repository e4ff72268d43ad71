"""The life of a private server: initialise, start, stop, kill, start again, remove."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, ClassVar

from sqlalchemy import URL, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from tests.support import tiers
from tests.support.ports import free_port

START_TIMEOUT = 120.0
STOP_TIMEOUT = 120.0

# A server dies with the thread that started it (see _start_process), so this one starts them all.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-starter")


class ServerMissing(Exception):
    """The server's programs are not installed here."""


class Server:
    """A server with a data directory of its own, listening on 127.0.0.1, already started.

    It writes to disk as a real one does: what it committed is there after :meth:`kill` and
    :meth:`start`. The port stays the same over restarts. Run by root, the server itself runs as
    its usual account, or nobody. :meth:`close` kills it and removes its data; a test run that is
    itself killed takes the server with it where ``setpriv`` exists.
    """

    name: ClassVar[str]
    account: ClassVar[str]
    scheme: ClassVar[str]
    jdbc_scheme: ClassVar[str]
    administrator: ClassVar[str]
    administrator_database: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    immediate_stop_signal: ClassVar[signal.Signals] = signal.SIGKILL
    zone: ClassVar[str] = "UTC"
    """The time zone of its machine."""

    def __init__(self, folder: Path | None = None) -> None:
        self.host = "127.0.0.1"
        self.port = free_port()
        self.username = "jdbcstore"
        self.password = f"pw-{secrets.token_hex(8)}"
        self.administrator_password = f"pw-{secrets.token_hex(8)}"
        self._find_programs()
        tiers.starts("servers")
        self.directory = Path(tempfile.mkdtemp(prefix=f"jdbcstore-{self.name}-", dir=folder))
        self.log = self.directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        try:
            give(self.directory, self._run_as())
            self._initialise(self.directory / "data")
            self._start(same_port=False)
            self._create_user()
        except BaseException:
            self.close()
            raise

    def _find_programs(self) -> None:
        """Look for the server's programs, or raise :class:`ServerMissing`."""
        raise NotImplementedError

    def _initialise(self, data: Path) -> None:
        """Make an empty data directory that the administrator's password opens."""
        raise NotImplementedError

    def _command(self, data: Path) -> Sequence[str]:
        """The server in the foreground, on ``self.port``."""
        raise NotImplementedError

    def _create_user(self) -> None:
        """Make ``self.username``, who may create databases; and a database of the same name."""
        raise NotImplementedError

    @property
    def url(self) -> URL:
        """The database that the ordinary user may connect to."""
        return URL.create(self.scheme, self.username, self.password, self.host, self.port, self.username)

    @property
    def jdbc_url(self) -> str:
        """The same for JDBC, without user and password."""
        return f"jdbc:{self.jdbc_scheme}://{self.host}:{self.port}/{self.username}"

    @property
    def administrator_url(self) -> URL:
        return self.url.set(
            username=self.administrator,
            password=self.administrator_password,
            database=self.administrator_database,
        )

    @property
    def pid(self) -> int | None:
        """The server's process, or None while it is down."""
        return None if self._process is None else self._process.pid

    def is_alive(self) -> bool:
        """Return whether its process has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start again on the same port and data, and wait until it takes connections."""
        self._start(same_port=True)

    def stop(self) -> None:
        """End cleanly: connections are cut, everything is written."""
        self._end(self.stop_signal)

    def stop_at_once(self) -> None:
        """End without writing anything more, as an impatient administrator does."""
        self._end(self.immediate_stop_signal)

    def kill(self) -> None:
        """End with SIGKILL, as if the machine had lost power but for the page cache.

        Processes of PostgreSQL outlive the first one until they look for it, and may answer meanwhile.
        """
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGSTOP)  # it starts no other one meanwhile
            signal_all(process.pid, signal.SIGKILL)
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Kill the server if it is up, and remove its data."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def execute_as_administrator(self, *statements: str) -> None:
        """Run statements outside a transaction."""
        engine = create_engine(self.administrator_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))

    def _start(self, same_port: bool) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        self._process = self._start_process()
        while not self._answers():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not start:\n{self._end_of_log()}")
            if self._process.poll() is not None:
                # Another process has taken the port, or after a kill the server's own orphans
                # have not yet let go of it.
                if not same_port:
                    self.port = free_port()
                self._process = self._start_process()
            time.sleep(0.02)

    def _start_process(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return _starter.submit(self._popen, log).result()

    def _popen(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        dies_with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        command = [*dies_with_us, *self._command(self.directory / "data")]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._surroundings()
        )

    def _run(self, *command: str) -> None:
        """Run one of the server's own tools to its end."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            **self._surroundings(),
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout.decode(errors='replace')}")

    def _surroundings(self) -> dict[str, Any]:
        environment = {
            "HOME": str(self.directory),
            "LC_ALL": "C",
            "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin",
            "TMPDIR": str(self.directory),
            "TZ": self.zone,
        }
        account = self._run_as()
        if account is None:
            return {"cwd": self.directory, "env": environment}
        return {
            "cwd": self.directory,
            "env": environment,
            "user": account.pw_uid,
            "group": account.pw_gid,
            "extra_groups": [],
        }

    def _run_as(self) -> pwd.struct_passwd | None:
        return account_of(self.account)

    def _answers(self) -> bool:
        # The password is ours alone, so no other server on this port can answer for ours.
        try:
            self.execute_as_administrator("SELECT 1")
        except DBAPIError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
        process.wait(STOP_TIMEOUT)

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def signal_all(pid: int, number: int) -> None:
    """Send a signal to a process and all its descendants, as if their machine stopped."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, number)
    for child in children:
        signal_all(int(child), number)


def give(path: Path, account: pwd.struct_passwd | None) -> None:
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid)


def account_of(name: str) -> pwd.struct_passwd | None:
    """The account to run a server as when we are root, which these servers refuse to run as."""
    if os.geteuid() != 0:
        return None
    for each in (name, "nobody"):
        try:
            return pwd.getpwnam(each)
        except KeyError:
            continue
    raise ServerMissing(f"no account to run a server as: neither {name} nor nobody")

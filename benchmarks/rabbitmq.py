"""RabbitMQ with its STOMP plugin, on loopback: Debian's, unpacked and not installed."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Self

from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.ports import free_port

_CACHE = ROOT / ".build" / "rabbitmq"
_ERLANG = (
    *("base", "asn1", "crypto", "eldap", "ftp", "inets", "mnesia", "os-mon", "parsetools", "public-key"),
    *("runtime-tools", "snmp", "ssl", "syntax-tools", "tftp", "tools", "xmerl"),
)
_PACKAGES = ("rabbitmq-server", *(f"erlang-{name}" for name in _ERLANG))
_IMPATIENT = ("-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0")
_CONFIGURATION = """\
listeners.tcp.1 = 127.0.0.1:{port}
stomp.listeners.tcp.1 = 127.0.0.1:{stomp_port}
stomp.default_user = guest
stomp.default_pass = guest
"""


class RabbitMissing(Exception):
    """RabbitMQ cannot be had on this machine."""


def unpacked() -> Path:
    """Return the folder of RabbitMQ and Erlang, fetched once: 58 MB.

    :raises RabbitMissing: apt-get cannot fetch them
    """
    if _CACHE.is_dir():
        return _CACHE / "usr"
    _CACHE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE.parent) as name:
        folder = Path(name, "unpacked")
        folder.mkdir()
        for command in (
            ["apt-get", "--quiet", *_IMPATIENT, "download", *_PACKAGES],
            ["sh", "-c", "for package in *.deb; do dpkg-deb --extract $package unpacked || exit; done"],
        ):
            try:
                done = subprocess.run(command, cwd=name, capture_output=True, text=True, check=False)
            except FileNotFoundError as missing:
                raise RabbitMissing(f"this is not Debian: {missing}") from missing
            if done.returncode:
                raise RabbitMissing(f"{command[0]} says {done.stderr[-300:]!r}")
        start = folder / "usr" / "lib" / "erlang" / "bin" / "erl"
        start.write_text(start.read_text().replace("ROOTDIR=/usr/lib/erlang", "ROOTDIR=$ERL_ROOTDIR"))
        folder.rename(_CACHE)
    return _CACHE / "usr"


class RabbitMQ:
    """A node with classic queues and its defaults; a context manager that ends it and removes its files."""

    def __init__(self) -> None:
        usr = unpacked()
        self._directory = tempfile.TemporaryDirectory(prefix="jdbcstore-rabbitmq-")
        folder = Path(self._directory.name)
        self.port, self.stomp_port = free_port(), free_port()
        configuration = folder / "rabbitmq.conf"
        configuration.write_text(_CONFIGURATION.format(port=self.port, stomp_port=self.stomp_port))
        plugins = folder / "enabled_plugins"
        plugins.write_text("[rabbitmq_stomp].")
        erlang, names = usr / "lib" / "erlang", str(free_port())
        environment = {
            "PATH": f"{erlang / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "ERL_ROOTDIR": str(erlang),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": names,
            "RABBITMQ_NODENAME": f"peer-{names}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            "RUNNING_UNDER_SYSTEMD": "1",  # the script becomes the node, instead of waiting for it
        }
        [epmd] = erlang.glob("erts-*/bin/epmd")
        [server] = usr.glob("lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
        self.version = server.parts[-3].partition("-")[2]
        self._log = folder / "log"
        with self._log.open("wb") as log:
            # In the foreground: as a daemon, which the node would start, it would stay.
            self._epmd = subprocess.Popen([epmd], env=environment, stdout=log, stderr=log)
            self._process = subprocess.Popen(
                [server], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def __enter__(self) -> Self:
        wait_until(self._is_ready, what="that RabbitMQ serves")
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._epmd.terminate()
        self._epmd.wait(60)
        self._directory.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _is_ready(self) -> bool:
        text = self._log.read_text(errors="replace")
        assert self._process.poll() is None, text[-4000:]
        return "Server startup complete" in text

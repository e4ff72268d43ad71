"""A member from outside: its process, its line to the database, its clock and its network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

from tests.support.cli.zygote import fork_main
from tests.support.failover.history import History
from tests.support.failover.hole import HoleLine
from tests.support.failover.member import Specification
from tests.support.failover.surroundings import Network, SkewedClock

_WAIT = 120.0


class Member:
    """One process, by way of a line of its own. ``specification`` has the url of the database itself."""

    def __init__(
        self,
        specification: Specification,
        history: History,
        *,
        clock: SkewedClock | None = None,
        network: Network | None = None,
    ) -> None:
        self.name = specification.name
        self.clock = clock
        self.network = network
        self.line = HoleLine(specification.url, network.host if network else "127.0.0.1")
        self._arguments = replace(specification, url=self.line.url).to_json()
        self._history = history
        self._closed = False
        self.start()

    def start(self) -> None:
        module, pipe = "tests.support.failover.member", subprocess.PIPE
        if self.network is None and self.clock is None:
            self.process = fork_main(module, self._arguments, stdout=pipe)
        else:
            self.process = subprocess.Popen(
                [
                    *(self.network.command if self.network else []),
                    sys.executable,
                    "-m",
                    module,
                    self._arguments,
                ],
                stdout=pipe,
                text=True,
                env=os.environ | (self.clock.environment if self.clock else {}),
            )
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # else it was killed while it wrote this
                self._history.record(self.name, line)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)

    def vanish(self) -> None:
        """Nothing it sends arrives, and nothing reaches it: no connection is even ended."""
        if self.network is not None:
            self.network.down()
        else:
            self.line.swallow()

    def appear(self) -> None:
        if self.network is not None:
            self.network.up()
        self.line.flow()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(_WAIT)
        self._reader.join(_WAIT)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.kill()
        self.line.close()
        if self.network is not None:
            self.network.close()

"""``jdbcstore console`` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from jdbcstore.config.broker import Address
from tests.support.broker.console import ConsoleClient
from tests.support.cli.command_line import CommandLine

PAGES = (
    "", "/queues", "/topics", "/consumers", "/connections", "/dead-letters", "/transactions", "/broker",
    "/database", "/claims",
)  # fmt: skip


@contextmanager
def console_on(
    folder: Path,
    url: str,
    *options: str,
    login: tuple[str, str] | None = None,
    stderr: IO[bytes] | None = None,
) -> Iterator[ConsoleClient]:
    arguments = ("console", "--listen", "127.0.0.1:0", *options)
    process = CommandLine(folder, url).start(*arguments, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdout is not None
    with process:
        try:
            line = process.stdout.readline().decode()
            assert line.startswith("ready console=http://127.0.0.1:")
            port = int(line.rpartition("/console")[0].rpartition(":")[2])
            yield ConsoleClient(Address("127.0.0.1", port), login)
            process.send_signal(signal.SIGTERM)
            assert process.wait(180.0) == 0
        finally:
            process.kill()

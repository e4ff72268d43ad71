"""The command line in a process of its own: as its users run it, or forked from one that has it imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.cli.zygote import Forked, zygote


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object that was printed."""
        (only,) = self.lines
        return only

    @property
    def lines(self) -> list[Any]:
        """The objects that were printed, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class CommandLine:
    """Runs ``jdbcstore`` in a folder, with a store's URL in the environment or none."""

    def __init__(self, folder: Path, url: str | None = None, **environment: str) -> None:
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("JDBCSTORE_")}
        self.environment = {**inherited, "PYTHONPATH": str(ROOT), **environment}
        if url is not None:
            self.environment["JDBCSTORE_URL"] = url

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start it, and leave it to the test to end it."""
        command = [sys.executable, "-m", "jdbcstore", *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **options)

    def fork(self, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        """As :meth:`start`, but by a Python that has everything imported."""
        if self.environment["PYTHONPATH"] != str(ROOT) or sys.platform != "linux":
            return self.start(*arguments, **streams)
        return Forked(arguments, self.folder, self.environment, **streams)

    def run_all(self, *commands: Sequence[str]) -> Result:
        """Run many, which all succeed, in one process: starting it is what takes long."""
        code = (
            "import json, sys; from jdbcstore.cli import main;"
            " sys.exit(any(map(main, json.loads(sys.argv[1]))))"
        )
        ran, out, err = zygote().run((json.dumps(commands),), self.folder, self.environment, b"", code)
        result = Result(ran, out.decode(), err.decode())
        assert result.code == 0, result.err
        return result

    def run(self, *arguments: str, stdin: bytes = b"") -> Result:
        """Run it to its end, whatever that is."""
        if self.environment["PYTHONPATH"] != str(ROOT):  # another Python than the one that is forked
            return self.run_anew(*arguments, stdin=stdin)
        code, out, err = zygote().run(arguments, self.folder, self.environment, stdin)
        return Result(code, out.decode(), err.decode())

    def run_anew(self, *arguments: str, stdin: bytes = b"") -> Result:
        """As :meth:`run`, by a Python that is started for it, as its users do."""
        pipe = subprocess.PIPE
        with self.start(*arguments, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            try:
                out, err = process.communicate(stdin, timeout=800)  # it may start a Spark on a busy machine
            except subprocess.TimeoutExpired:
                process.kill()  # else the block would wait for it
                raise
        return Result(process.returncode, out.decode(), err.decode())

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Result:
        """Run it, and see it succeed."""
        result = self.run(*arguments, stdin=stdin)
        assert result.code == 0, result.err
        return result

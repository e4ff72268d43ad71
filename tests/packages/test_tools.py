"""``uv tool`` and ``pipx`` install the wheel, with its dependencies from an index, and its command runs.

``python -m tests.versions tools`` runs this; it is skipped without ``JDBCSTORE_TEST_TOOLS``, the folder of
both programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jdbcstore
from tests.packages.conftest import Installed

TOOLS = os.environ.get("JDBCSTORE_TEST_TOOLS", "")

pytestmark = [
    pytest.mark.skipif(not TOOLS, reason="python -m tests.versions tools runs this"),
    pytest.mark.xdist_group("packages"),
]

INSTALL = {"uv": ("tool", "install", "--python"), "pipx": ("install", "--python")}


@pytest.mark.parametrize("tool", INSTALL)
def test_the_command_is_installed_and_runs(tool: str, installed: Installed, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"UV_TOOL_DIR": str(tmp_path / "uv"), "UV_TOOL_BIN_DIR": str(programs)}
    environment |= {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(programs)}
    environment["JDBCSTORE_URL"] = "sqlite:///mq.db"

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(f"{TOOLS}/{tool}", *INSTALL[tool], sys.executable, f"{installed.wheel}[postgresql]")
    program = str(programs / "jdbcstore")
    run(program, "send", "ORDERS", "two pints")

    assert run(program, "--version").startswith(f"jdbcstore, version {jdbcstore.__version__}\n")
    assert "psycopg" in run(program, "--version")
    assert "two pints" in run(program, "browse", "ORDERS")

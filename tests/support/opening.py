"""A process that writes through a journal, and is killed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.support.cli.zygote import fork_program

WAIT = 180.0


PROGRAM = """
import sys, jdbcstore
from jdbcstore import Message, load_config
store = jdbcstore.open(load_config(sys.argv[1], environment={}), cleanup_period=0.0)
store.queue("Q").add_messages([Message(f"m{n}") for n in range(10)])
print("ready", flush=True)
sys.stdin.read()
"""


def other_process(file: Path) -> subprocess.Popen[str]:
    """It has stored ten messages, and goes on to have the journal."""
    process = fork_program(PROGRAM, str(file), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    with process:
        pass


def written(folder: Path, more: str = "") -> Path:
    path = folder / "jdbcstore.toml"
    path.write_text(
        f'url = "sqlite:///{folder}/data/mq.db"\n{more}\n'
        f'[journal]\ndirectory = "{folder}/journal"\njournal_log_file_size = "1 mb"\n'
    )
    return path

"""``python -m benchmarks.startup``: the CPU time that a command uses before it does its work.

User and system time of a process, in seconds: the median of nine runs, compared with a bare interpreter.
Modules are compiled by a run that is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import click

import jdbcstore
from jdbcstore import Message

_MESSAGES = 10


def cpu_seconds(arguments: Sequence[str], runs: int) -> float:
    """Measure the median over the runs of a process of this interpreter, after one that is not counted."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(Path(jdbcstore.__file__).parents[1])
    return median([_cpu_seconds(arguments, environment) for _ in range(runs + 1)][1:])


def _cpu_seconds(arguments: Sequence[str], environment: dict[str, str]) -> float:
    before = os.times()
    subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


@click.command(help=__doc__)
@click.option("--runs", default=9, show_default=True)
def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/startup.db"
        with jdbcstore.open(url) as store:
            store.queue("ORDERS").add_messages(Message(f"order {number}") for number in range(_MESSAGES))
        measured = {
            "bare interpreter": ["-c", "pass"],
            "import click": ["-c", "import click"],
            "import jdbcstore": ["-c", "import jdbcstore"],
            "import every public name": ["-c", "from jdbcstore import *"],
            "jdbcstore --version": ["-m", "jdbcstore", "--version"],
            "jdbcstore --help": ["-m", "jdbcstore", "--help"],
            f"jdbcstore browse, {_MESSAGES} messages": ["-m", "jdbcstore", "browse", "ORDERS", "--url", url],
        }
        click.echo("| process | CPU seconds |\n|---|---|")
        for name, arguments in measured.items():
            click.echo(f"| {name} | {cpu_seconds(arguments, runs):.2f} |")


if __name__ == "__main__":
    main()

"""``python -m tests.fuzzing NAME --seconds N``: coverage-guided fuzzing of a reader, or of all in turn.

It needs atheris, the extra ``fuzzing``. ``.build/fuzzing/NAME`` keeps new inputs, those that failed, and the
numbers of executions. ``--keep`` replaces the inputs in the tree that are kept for what they reach.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile

import click

from tests.fuzzing.readers.folder import memory
from tests.fuzzing.target import Target
from tests.fuzzing.targets import TARGETS
from tests.support import ROOT

_BUILD = ROOT / ".build" / "fuzzing"
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_REACHED = re.compile(r"cov: (\d+) ft: (\d+)")
_HANGS_AFTER = 60
"""Seconds of an input after which libFuzzer ends the run; one second of CPU is what fails it."""
_MEMORY = 2048
"""Mebibytes of a process: what one input may take is checked by the target."""


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice([*TARGETS]))
@click.option("--seconds", default=60, show_default=True, help="For each target.")
@click.option("--keep", is_flag=True, help="Renew the corpus in the tree.")
def main(names: tuple[str, ...], seconds: int, keep: bool) -> None:
    if importlib.util.find_spec("atheris") is None:
        raise click.ClickException("atheris is not installed; run: .venv/bin/pip install -e '.[fuzzing]'")
    failed = False
    for target in map(TARGETS.__getitem__, names or TARGETS):
        failed |= not fuzz(target, seconds)
        if keep:
            done = _run("tests.fuzzing.keeping", target, str(_BUILD / target.name / "corpus"))
            if done.returncode:
                raise click.ClickException(done.stdout)
    sys.exit(failed)


def fuzz(target: Target, seconds: int) -> bool:
    """Return whether a target stood so many seconds."""
    home = _BUILD / target.name
    found = home / "corpus"
    found.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(target.begin()):
        (found / f"begin-{number}").write_bytes(data)
    words = home / "words"
    words.write_text("".join(f'"{word}"\n' for word in target.words.split()))
    options = [f"-max_total_time={seconds}", f"-timeout={_HANGS_AFTER}", f"-rss_limit_mb={_MEMORY}"]
    options += [f"-max_len={target.largest}", f"-artifact_prefix={home}/", "-print_final_stats=1"]
    options += [f"-dict={words}"] if target.words else []
    corpora = [str(path) for path in (found, target.corpus) if path.exists()]
    done = _run("tests.fuzzing.engine", target, *options, *corpora)
    executed, reached = _EXECUTED.search(done.stdout), _REACHED.findall(done.stdout)
    count = int(executed[1]) if executed else 0
    with (home / "executions").open("a") as file:
        file.write(f"{count}\n")
    total = sum(map(int, (home / "executions").read_text().split()))
    branches = reached[-1][0] if reached else "?"
    verdict = "ok" if done.returncode == 0 else "FAILED"
    click.echo(f"{target.name}: {verdict}, {count} executions ({total} in all), {branches} branches")
    if done.returncode:
        click.echo(done.stdout[-6000:])
    return done.returncode == 0


def _run(module: str, target: Target, *options: str) -> subprocess.CompletedProcess[str]:
    # libFuzzer ends the process without its exit handlers, so that it leaves its files.
    with tempfile.TemporaryDirectory(dir=memory()) as files:
        return subprocess.run(
            [sys.executable, "-m", module, target.name, *options],
            cwd=ROOT,
            env={**os.environ, "JDBCSTORE_PURE": "1", "PYTHONHASHSEED": "0", "TMPDIR": files},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )


if __name__ == "__main__":
    main()

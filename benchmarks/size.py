"""``python -m benchmarks.size [EXTRA...]``: what jdbcstore takes on disk, and its import in memory.

The wheel of this clone is installed into empty environments, with its dependencies from the index that pip
uses: without an extra, and with each that is named. Sizes are those of files, compiled modules included.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click

_ROOT = Path(__file__).parents[1]
_MEGABYTE = 1_000_000
_STATEMENTS = {
    "bare interpreter": "",
    "`import jdbcstore`": "import jdbcstore",
    "`from jdbcstore import *`": "from jdbcstore import *",
    "a store on SQLite": "import jdbcstore; jdbcstore.open('sqlite:///size.db').close()",
}
_REPORT = (
    "; import resource, sys; print(len(sys.modules), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
)


def install(wheel: Path, extra: str, folder: Path) -> Path:
    """Install the wheel in a new environment in this folder, and return its interpreter."""
    environment = folder / (extra or "none")
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = environment / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", wanted)
    return python


def sizes(python: Path) -> dict[str, int]:
    """Return the bytes of each folder or file of the environment's packages."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    return {
        one.name: sum(path.stat().st_size for path in (one, *one.rglob("*")) if path.is_file())
        for one in packages.iterdir()
    }


def _run(*command: str, folder: Path | None = None) -> str:
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


@click.command(help=__doc__)
@click.argument("extras", nargs=-1, metavar="[EXTRA]...")
def main(extras: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name, folder=_ROOT)
        (wheel,) = folder.glob("*.whl")
        pythons = {extra: install(wheel, extra, folder) for extra in ("", *extras)}
        click.echo(f"The wheel: {wheel.stat().st_size / _MEGABYTE:.1f} MB")
        click.echo("\n| installed | packages | MB | of these jdbcstore |\n|---|---|---|---|")
        for extra, python in pythons.items():
            found = sizes(python)
            count = sum(one.endswith(".dist-info") for one in found)
            total, own = (f"{each / _MEGABYTE:.1f}" for each in (sum(found.values()), found["jdbcstore"]))
            click.echo(f"| `jdbcstore{extra and f'[{extra}]'}` | {count} | {total} | {own} |")
        click.echo("\n| process | modules | MB resident |\n|---|---|---|")
        for what, statement in _STATEMENTS.items():
            modules, kilobytes = _run(
                str(pythons[""]), "-c", (statement or "pass") + _REPORT, folder=folder
            ).split()
            click.echo(f"| {what} | {modules} | {int(kilobytes) * 1024 / _MEGABYTE:.0f} |")


if __name__ == "__main__":
    main()

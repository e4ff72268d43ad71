"""``python -m benchmarks.staircase``: the modules that an operation enters, its calls, its changes of module.

The operations are those of ``tests.support.calls``, on SQLite. Threads of the store and of the broker count.
Functions of the compiled core are not seen: set ``JDBCSTORE_PURE=1`` to count them as Python.
"""

from __future__ import annotations

import click

from tests.support.calls import walked


def main() -> None:
    calls = walked()
    for name, files in calls.files.items():
        click.echo(
            f"{name}: {len(files)} files, {calls.found[name]} calls, {calls.changes[name]} changes of file"
        )
        for file in files:
            click.echo(f"  {file}")


if __name__ == "__main__":
    main()

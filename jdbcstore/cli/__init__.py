"""Command line ``jdbcstore``, documented in docs/cli.md."""

from __future__ import annotations

import os


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; return its exit code."""
    try:
        from jdbcstore.cli.app import main as run

        return run(arguments)
    except KeyboardInterrupt:  # while modules are imported
        os.write(2, b"jdbcstore: interrupted\n")
        return 130


__all__ = ["main"]

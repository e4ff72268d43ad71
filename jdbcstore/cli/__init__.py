"""The command line ``jdbcstore``; docs/cli.md describes it."""

from jdbcstore.cli.app import main

__all__ = ["main"]

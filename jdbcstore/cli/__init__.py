"""Command line ``jdbcstore``, documented in docs/cli.md."""

from jdbcstore.cli.app import main

__all__ = ["main"]

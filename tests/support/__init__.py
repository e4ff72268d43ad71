"""Helpers of the tests: servers, databases, clocks, clients, and faults to make."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder of the checkout."""

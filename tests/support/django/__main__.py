"""Runs the cases in this process, which has the project's settings in its environment."""

from __future__ import annotations

import sys
from pathlib import Path

import django
import pytest

django.setup()
cases = Path(__file__).with_name("cases.py")
sys.exit(pytest.main([str(cases), "-q", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist"]))

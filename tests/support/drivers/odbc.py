"""Microsoft's ODBC driver, out of a wheel of PyPI."""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path


def microsoft() -> Path | None:
    """Return the driver's library for this machine; None where the wheel is not installed, or has none."""
    found = importlib.util.find_spec("mssql_python_odbc")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "libs" / "linux" / "debian_ubuntu" / platform.machine() / "lib"
    return next(iter(sorted(folder.glob("libmsodbcsql-18.*"))), None)

"""Files that lie beside the modules, also where these are in a zip that Spark was given."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from jdbcstore.analytics.scratch import scratch


def resource(name: str) -> str:
    """The text of a file of this package."""
    return files("jdbcstore.analytics").joinpath(name).read_text(encoding="utf-8")


def resource_path(name: str) -> Path:
    """Where a file of this package is, for other programs."""
    with as_file(files("jdbcstore.analytics").joinpath(name)) as path:
        if path.exists() and path.parent == Path(__file__).parent:
            return path
    copy = scratch("files") / name
    copy.write_text(resource(name), encoding="utf-8")
    return copy

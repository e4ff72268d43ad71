"""Archives of messages as Parquet files: each message written once, queried with Spark, restored or replayed.

>>> from jdbcstore import analytics, load_config
>>> from jdbcstore.tools import archive
>>> window = archive.Window.of(older_than=30 * 86400)
>>> archive.write(analytics.session(), load_config(url="sqlite:///mq.db"), "archive", window)
"""

# Raises a helpful error if Spark is not installed.
from jdbcstore.analytics import connect as _connect  # noqa: F401
from jdbcstore.tools.archive.files import Archive
from jdbcstore.tools.archive.reading import ArchiveHistory, Removed, Restored, remove, restore
from jdbcstore.tools.archive.writing import (
    ArchiveComparison,
    MessageDifference,
    Window,
    WrittenBatch,
    compare,
    read,
    write,
)

__all__ = [
    "Archive",
    "ArchiveComparison",
    "ArchiveHistory",
    "MessageDifference",
    "Removed",
    "Restored",
    "Window",
    "WrittenBatch",
    "compare",
    "read",
    "remove",
    "restore",
    "write",
]

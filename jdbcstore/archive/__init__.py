"""Messages kept as Parquet, outside of the store: written once each, found by Spark, put back.

>>> from jdbcstore import analytics, archive, load_config
>>> window = archive.Window.of(older_than=30 * 86400)
>>> archive.write(analytics.session(), load_config(url="sqlite:///mq.db"), "archive", window)
"""

# Where Spark is not installed, this says so.
from jdbcstore.analytics import connect as _connect  # noqa: F401
from jdbcstore.archive.comparing import Comparison, Difference, compare
from jdbcstore.archive.history import ArchiveHistory
from jdbcstore.archive.layout import Archive
from jdbcstore.archive.removing import Removed, remove
from jdbcstore.archive.restoring import Restored, restore
from jdbcstore.archive.window import Window
from jdbcstore.archive.writing import Written, write

__all__ = [
    "Archive",
    "ArchiveHistory",
    "Comparison",
    "Difference",
    "Removed",
    "Restored",
    "Window",
    "Written",
    "compare",
    "remove",
    "restore",
    "write",
]
